"""How much of other zones' workers a zone may count on, and which zones it asks. Batchers work it out from what all
of them say of their load (`cluster/zones.py`), and the simulator from what it knows (`sim/zoned.py`).

A zone lends what it does not need itself, less a reserve. That is divided evenly among the zones that need it:
those that are asked for more than they can do. The one that calculates counts as one of them, so that it knows in
advance.

Once a zone in need is late for it, what it lacks is taken from all who can spare something, in proportion. A zone
that lends counts on so many workers less, and so makes larger batches. Otherwise it would keep its workers busy
with small ones, since a batch goes at once where workers are plentiful, and those who borrow would get half of what
they count on.

If no worker is left in a zone and nobody has anything to spare, it asks everybody: their lines give each slot to
whoever has waited longest. It then counts on one worker.
"""

from collections.abc import Mapping
from typing import NamedTuple

RESERVE = 0.1  # the part of its workers that a zone does not lend


class ZoneLoad(NamedTuple):
    """How one model stands in one zone."""

    workers: int  # healthy ones
    needed: float  # how many workers its requests keep busy
    late: bool = False  # whether its workers cannot do in time what waits now

    @property
    def spare(self) -> float:
        """How many workers the zone can lend."""
        return max(0.0, (1.0 - RESERVE) * self.workers - self.needed)

    @property
    def lacking(self) -> float:
        """How many workers the zone needs from others now."""
        return max(0.0, self.needed - self.workers) if self.late or not self.workers else 0.0


class Loan(NamedTuple):
    """What a zone borrows from others, and lends them."""

    workers: float  # how many workers of others all batchers of the zone together may count on
    zones: tuple[str, ...]  # the zones to ask, the one with the most to spare first
    lends: float = 0.0  # how many workers of its own others use


NOTHING = Loan(0.0, ())


def loan_of(mine: str, loads: Mapping[str, ZoneLoad]) -> Loan:
    """What the zone `mine` borrows and lends. `loads`: all zones with workers or batchers."""
    others = {zone: load for zone, load in loads.items() if zone != mine}
    here = loads.get(mine, ZoneLoad(0, 0.0))
    with_workers = [zone for zone, load in others.items() if load.workers]
    willing = sorted((zone for zone in others if others[zone].spare), key=lambda zone: -others[zone].spare)
    to_spare = sum(load.spare for load in others.values())
    workers = to_spare / (1 + sum(load.needed > load.workers for load in others.values()))
    lacking = sum(load.lacking for load in others.values())
    lends = here.spare * min(1.0, lacking / (to_spare + here.spare)) if here.spare else 0.0
    if here.workers or not with_workers:
        return Loan(workers, tuple(willing), lends)
    return Loan(max(1.0, workers), tuple(willing) or tuple(sorted(with_workers)), lends)
