"""When a function began and ended each batch, by its own clock: shows where the time between two batches goes.

The function writes them, and the loads read them afterwards. Every process of a function appends to a file of its
own; the monotonic clock is the same for all of a machine.
"""

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, quantiles

_STAMP = struct.Struct("=ddi")


class Stamps:
    """The pen of one process."""

    def __init__(self, folder: str) -> None:
        path = Path(folder, f"{os.getpid()}.stamps")
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)

    def add(self, began: float, ended: float, size: int) -> None:
        os.write(self._file, _STAMP.pack(began, ended, size))


@dataclass(frozen=True, slots=True)
class Stamp:
    began: float
    ended: float
    size: int


@dataclass(frozen=True, slots=True)
class Busy:
    """What the functions of one server did in a window of time. Durations in ms."""

    batches: int
    share: float  # of the time in which at least one function ran
    size: float  # mean
    inside: float  # mean time of a batch in the function
    gap: float  # between two batches of a process, median
    gap_p90: float


def read(folder: Path) -> list[list[Stamp]]:
    """The stamps of each process."""
    found = []
    for path in sorted(folder.glob("*.stamps")):
        data = path.read_bytes()
        whole = len(data) - len(data) % _STAMP.size  # the last one may be half written
        found.append([Stamp(*values) for values in _STAMP.iter_unpack(data[:whole])])
    return found


def busy(processes: Sequence[Sequence[Stamp]], began: float, ended: float) -> Busy | None:
    """None if no batch ran in the window."""
    within = [
        [stamp for stamp in stamps if began <= stamp.began and stamp.ended <= ended] for stamps in processes
    ]
    every = sorted((stamp for stamps in within for stamp in stamps), key=lambda stamp: stamp.began)
    if not every or ended <= began:
        return None
    gaps = [(later.began - before.ended) * 1e3 for stamps in within for before, later in pairwise(stamps)]
    deciles = quantiles(gaps, n=10) if len(gaps) > 1 else [0.0] * 9
    return Busy(
        batches=len(every),
        share=_covered(every) / (ended - began),
        size=fmean(stamp.size for stamp in every),
        inside=fmean((stamp.ended - stamp.began) * 1e3 for stamp in every),
        gap=deciles[4],
        gap_p90=deciles[8],
    )


def _covered(stamps: Sequence[Stamp]) -> float:
    """Seconds in which at least one of the batches ran; they are in the order in which they began."""
    covered, reached = 0.0, 0.0
    for stamp in stamps:
        covered += max(0.0, stamp.ended - max(stamp.began, reached))
        reached = max(reached, stamp.ended)
    return covered
