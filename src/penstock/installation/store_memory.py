"""How much memory the store of `penstock up` may use, by how much this machine has. `supervisor.py` asks once,
before it makes the store. The limits of the container are read from /sys."""

import os
from pathlib import Path

MIB = 2**20
DIVISOR = 4  # the store may use a quarter of the machine's memory, or of the container's
LEAST = 256 * MIB  # bytes that the store gets in any case
_CONTAINER = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def store_memory(said: int | None) -> int:
    """Returns the bytes that the store may use: `said`, as the configuration has it, or if that is None a quarter
    of what there is."""
    return said if said is not None else max(LEAST, memory_here() // DIVISOR)


def memory_here() -> int:
    """Returns the memory of this machine in bytes, or of the container if that is less."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for file in _CONTAINER:
        try:
            limits.append(int(file.read_text()))
        except (OSError, ValueError):  # the container has no limit, or the file says `max`
            continue
    return min(limits)
