"""How much of other zones' workers a zone may count on, and which zones it asks. Batchers work it out from what all
of them say of their load (`cluster/zones.py`), and the simulator from what it knows (`sim/zones.py`).

A zone lends what it does not need itself, less a reserve. That is divided evenly among the zones that need it:
those that are asked for more than they can do. The one that calculates counts as one of them, so that it knows in
advance.

If no worker is left in a zone and nobody has anything to spare, it asks everybody: their lines give each slot to
whoever has waited longest. It then counts on one worker.
"""

from collections.abc import Mapping
from typing import NamedTuple

RESERVE = 0.05  # the part of its workers that a zone does not lend


class ZoneLoad(NamedTuple):
    """How one model stands in one zone."""

    workers: int  # healthy ones
    needed: float  # how many workers its requests keep busy


class Loan(NamedTuple):
    """What other zones lend."""

    workers: float  # that may be counted on, by all batchers of the zone together
    zones: tuple[str, ...]  # the zones to ask, the one with the most to spare first


NOTHING = Loan(0.0, ())


def loan_of(mine: str, loads: Mapping[str, ZoneLoad]) -> Loan:
    """What the zone `mine` may borrow. `loads`: all zones with workers or batchers."""
    others = {zone: load for zone, load in loads.items() if zone != mine and load.workers}
    if not others:
        return NOTHING
    spare = {zone: (1.0 - RESERVE) * load.workers - load.needed for zone, load in others.items()}
    willing = sorted((zone for zone in spare if spare[zone] > 0.0), key=lambda zone: (-spare[zone], zone))
    in_need = 1 + sum(load.needed > load.workers for zone, load in loads.items() if zone != mine)
    workers = sum(spare[zone] for zone in willing) / in_need
    if mine in loads and loads[mine].workers:
        return Loan(workers, tuple(willing))
    return Loan(max(1.0, workers), tuple(willing) or tuple(sorted(others)))
