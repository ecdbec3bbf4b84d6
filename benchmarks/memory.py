"""What each process holds, from /proc: its own memory and its open descriptors; and whether either grows."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

from benchmarks.processor import everybody

MIB = 1024.0
STUDENT = 2.0  # for an interval of 95 % of a slope over many samples


@dataclass(frozen=True, slots=True)
class Held:
    """What a process and all below it hold."""

    mib: float  # memory that no other process shares
    descriptors: int


@dataclass(frozen=True, slots=True)
class Slope:
    """A straight line through samples, in units an hour."""

    each_hour: float
    error: float  # half of its interval of 95 %


def held(processes: Mapping[str, int]) -> dict[str, Held]:
    children: dict[int, list[int]] = {}
    for pid, stat in everybody().items():
        children.setdefault(stat.parent, []).append(pid)
    found = {}
    for name, pid in processes.items():
        family, waiting = [], [pid]
        while waiting:
            family.append(each := waiting.pop())
            waiting += children.get(each, ())
        found[name] = Held(sum(map(_own, family)), sum(map(_open, family)))
    return found


def slope(times: Sequence[float], values: Sequence[float]) -> Slope:
    """Least squares. `times` are seconds."""
    count = len(times)
    if count < 3:
        return Slope(0.0, float("inf"))
    mean, level = sum(times) / count, sum(values) / count
    spread = sum((time - mean) ** 2 for time in times)
    steep = sum((time - mean) * (value - level) for time, value in zip(times, values, strict=True)) / spread
    left = sum(
        (value - level - steep * (time - mean)) ** 2 for time, value in zip(times, values, strict=True)
    )
    return Slope(steep * 3600, STUDENT * sqrt(left / (count - 2) / spread) * 3600)


def _own(pid: int) -> float:
    with suppress(OSError):  # it has ended
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / MIB
    return 0.0


def _open(pid: int) -> int:
    with suppress(OSError):
        return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    return 0
