"""How much memory the store may use that `penstock up` starts."""

import os
from pathlib import Path

MIB = 2**20
PART = 4  # of the machine's memory, or of the container's
LEAST = 256 * MIB
_CONTAINER = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def store_memory(said: int | None) -> int:
    """Bytes: as the config says, or a quarter of what there is."""
    return said if said is not None else max(LEAST, memory_here() // PART)


def memory_here() -> int:
    """Of this machine, or of the container if that is less."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for file in _CONTAINER:
        try:
            limits.append(int(file.read_text()))
        except (OSError, ValueError):  # there is none, or it says `max`
            continue
    return min(limits)
