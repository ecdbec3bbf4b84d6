"""How much processor time each process used, from /proc: what a request costs, by process. Read before and after a
turn by the benchmarks that tell costs besides rates."""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
OTHERS = "everything else on this machine"


@dataclass(frozen=True, slots=True)
class Stat:
    parent: int
    seconds: float  # of this process alone


def used(processes: Mapping[str, int]) -> dict[str, float]:
    """Seconds of processor time so far of each named process and, apart, of those below it."""
    stats = everybody()
    children: dict[int, list[int]] = {}
    for pid, stat in stats.items():
        children.setdefault(stat.parent, []).append(pid)
    seconds: dict[str, float] = {}
    for name, pid in processes.items():
        if pid in stats:
            seconds[name] = stats[pid].seconds
            below = _below(pid, children)
            if below:
                seconds[f"{name}, its function"] = sum(stats[child].seconds for child in below)
    return seconds


def everybody() -> dict[int, Stat]:
    found = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):  # it has ended since
                found[int(entry.name)] = parse(Path(entry.path, "stat").read_text())
    return found


def parse(stat: str) -> Stat:
    """Reads a line of /proc/PID/stat. The name in it may hold spaces and brackets; what follows it is regular."""
    fields = stat.rpartition(")")[2].split()
    return Stat(parent=int(fields[1]), seconds=(int(fields[11]) + int(fields[12])) / TICKS)


def whole_machine() -> float:
    """Seconds that any process has used so far, all cores together."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    idle, waiting = fields[3], fields[4]
    return (sum(fields[:8]) - idle - waiting) / TICKS


def between(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    return {name: seconds - before.get(name, 0.0) for name, seconds in after.items()}


def _below(pid: int, children: Mapping[int, list[int]]) -> list[int]:
    found = []
    waiting = list(children.get(pid, ()))
    while waiting:
        child = waiting.pop()
        found.append(child)
        waiting += children.get(child, ())
    return found
