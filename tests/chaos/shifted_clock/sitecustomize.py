"""Found by a Python process whose path leads here: its wall clock is off by the seconds that a file holds."""

import os
import time
from pathlib import Path

_file = Path(os.environ["CHAOS_CLOCK"])
_true = time.time_ns


def _shifted_ns() -> int:
    """The file is read each time: the clock may be set while the process runs."""
    return _true() + int(float(_file.read_text()) * 1e9)


time.time_ns = _shifted_ns
time.time = lambda: _shifted_ns() / 1e9
