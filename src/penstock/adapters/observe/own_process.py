"""What this process is and uses: its version, its memory, its processor time. The metrics page asks
(`exposition.py`) and the system is asked at that moment."""

import os
import time
from pathlib import Path

from penstock import __version__

_PAGE = os.sysconf("SC_PAGE_SIZE")
_MEMORY = Path("/proc/self/statm")  # in pages: the size of the process, then what of it is in memory


class OwnProcess:
    """This process, as the system knows it."""

    version = __version__

    def __init__(self) -> None:
        self.started = time.time()  # seconds since the epoch, within what the start itself took

    def cpu_seconds(self) -> float:
        return time.process_time()

    def resident_bytes(self) -> int:
        return int(_MEMORY.read_text().split()[1]) * _PAGE
