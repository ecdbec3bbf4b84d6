"""How much the workers can do, and the queue lengths at which lower tiers are refused.

The capacity of a fleet is the number of its healthy workers times the throughput they have shown at full batches. A
batcher counts on its own share of that; where there are zones, on its share of its zone and of what others lend.
`Admission` and `tier_gate` ask this when they hold requests back, and `/internal/health` and the metrics show it
(`runtime/model_condition.py`).
"""

from dataclasses import dataclass
from typing import NamedTuple

from penstock.core.batcher import Batcher

# So many full batches for each worker may always wait, before the lowest tier (warning), or all but the best tier
# (critical), is refused.
WARNING_ROUNDS, CRITICAL_ROUNDS = 2.0, 4.0


@dataclass(frozen=True, slots=True)
class CapacityRules:
    """How tiers share the capacity, and how many requests may wait."""

    # The part of the capacity that the lowest tier may use while better tiers wait (beyond the next batch).
    lowest_share: float = 0.7
    warning: float = 100.0  # waiting requests at which the lowest tier is refused
    critical: float = 500.0  # waiting requests at which all but the best are refused
    reference: float = 320.0  # requests a second: the capacity that both numbers are meant for
    max_queue: int = 20_000
    # The part of the queue that each tier may fill; empty: each may fill all of it.
    queue_shares: tuple[float, ...] = ()


class DepthLimits(NamedTuple):
    """The numbers of waiting requests at which tiers are refused, for the capacity of this moment."""

    warning: float
    critical: float


def fleet_capacity(batcher: Batcher) -> float:
    """Requests a second that all healthy workers can do, in all zones; 0 while there are none, or no batch has been
    seen."""
    return _one_worker(batcher) * batcher.fleet.everywhere


def own_capacity(batcher: Batcher) -> float:
    """The part of the fleet's capacity that this batcher may count on."""
    return _one_worker(batcher) * batcher.fleet.own


def _one_worker(batcher: Batcher) -> float:
    """Requests a second that one worker can do; 0 while no batch has been seen."""
    curve = batcher.curve
    return curve.best_size / curve.best_seconds if curve.best_seconds else 0.0


def depth_limits(batcher: Batcher, rules: CapacityRules) -> DepthLimits:
    """The depths at which tiers are refused now. They mean nothing while no batch has been seen."""
    scale = own_capacity(batcher) / rules.reference
    round_ = batcher.curve.best_size * batcher.fleet.own
    return DepthLimits(
        max(rules.warning * scale, WARNING_ROUNDS * round_),
        max(rules.critical * scale, CRITICAL_ROUNDS * round_),
    )
