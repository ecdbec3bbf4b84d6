"""What the workers can do, and the depths of the queue that go with it.

capacity = healthy workers × the throughput they have shown, at full batches
"""

from dataclasses import dataclass
from typing import NamedTuple

from penstock.core.batcher import Batcher

WARNING_ROUNDS, CRITICAL_ROUNDS = 2.0, 4.0  # full batches for each worker


@dataclass(frozen=True, slots=True)
class CapacityRules:
    lowest_share: float = 0.7  # the part of the capacity that the lowest tier may have
    warning: float = 100.0  # waiting requests at which the lowest tier is refused
    critical: float = 500.0  # waiting requests at which all but the best are refused
    reference: float = 320.0  # requests a second: the capacity that both numbers are meant for
    max_queue: int = 20_000
    # The part of the queue that each tier may fill; empty: each may fill all of it.
    queue_shares: tuple[float, ...] = ()


class Depths(NamedTuple):
    """Numbers of waiting requests, at the capacity of the moment."""

    warning: float
    critical: float


def fleet_capacity(batcher: Batcher) -> float:
    """Requests a second that all healthy workers can do; 0 while there are none, or nothing has been seen."""
    curve = batcher.curve
    if not curve.best_seconds:
        return 0.0
    return curve.best_size / curve.best_seconds * batcher.fleet.healthy


def capacity(batcher: Batcher) -> float:
    """The part of the fleet's capacity that this batcher may count on."""
    return fleet_capacity(batcher) * batcher.fleet.share


def depths(batcher: Batcher, rules: CapacityRules) -> Depths:
    scale = capacity(batcher) / rules.reference
    round_ = batcher.curve.best_size * batcher.fleet.healthy * batcher.fleet.share
    return Depths(
        max(rules.warning * scale, WARNING_ROUNDS * round_),
        max(rules.critical * scale, CRITICAL_ROUNDS * round_),
    )
