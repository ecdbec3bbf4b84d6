"""Says which cells of the matrix are lost to another policy, by what the seeds agree on. Called when all cells have
been played.

A rival beats us in a figure if ours is more than `MARGIN` worse, seed by seed on the same arrivals, and by more
than chance explains: the mean of the ratios, less Student's t times its standard error, must lie beyond the margin.
With one seed there is no error to speak of, and the ratio itself decides.
"""

from collections.abc import Iterable, Iterator
from math import sqrt
from statistics import fmean, stdev
from typing import NamedTuple

from benchmarks.matrix.cells import Cell
from benchmarks.matrix.play import OURS, Figures, Played

MARGIN = 0.01  # a rival that is better by no more than this part beats nobody
STUDENT = {2: 6.31, 3: 2.92, 4: 2.35, 5: 2.13, 6: 2.02, 7: 1.94, 8: 1.90}  # one-sided, 95 %, by seeds


class Loss(NamedTuple):
    cell: Cell
    rival: str
    figure: str
    by: float  # ours over theirs, less 1
    sure: bool  # beyond what chance explains


def losses(played: Played) -> Iterator[Loss]:
    """The worst rival of each figure that we are behind in."""
    for figure in ("served",) if played.cell.load > 1.0 else ("mean", "p95", "p99"):
        found = [
            Loss(played.cell, rival, figure, *_behind(figure, played.by[OURS.name], theirs))
            for rival, theirs in played.by.items()
            if rival != OURS.name
        ]
        behind = [loss for loss in found if loss.by > MARGIN]
        if behind:
            yield max(behind, key=lambda loss: (loss.sure, loss.by))


def _behind(figure: str, ours: list[Figures], theirs: list[Figures]) -> tuple[float, bool]:
    pairs = [(getattr(one, figure), getattr(other, figure)) for one, other in zip(ours, theirs, strict=True)]
    if figure == "served":  # more is better
        pairs = [(other, one) for one, other in pairs]
    ratios = [one / other - 1.0 if other else 0.0 for one, other in pairs]
    error = stdev(ratios) / sqrt(len(ratios)) if len(ratios) > 1 else 0.0
    by = fmean(ratios)
    return by, by - STUDENT.get(len(ratios), 1.83 if error else 0.0) * error > MARGIN


def told(found: Iterable[Loss]) -> str:
    rows = sorted(found, key=lambda loss: -loss.by)
    head = "| cell | figure | better | by | |\n|---|---|---|---:|---|\n"
    return head + "".join(
        f"| {loss.cell} | {loss.figure} | {loss.rival} | {loss.by:.1%} | {'' if loss.sure else 'or chance'} |\n"
        for loss in rows
    )
