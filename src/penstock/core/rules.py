"""The settings that one model's batcher goes by. They are made from the configuration (`from_config/rules.py`), and
by `advice` and the benchmarks. Every part of the batcher reads them, and none changes them; a batcher may be given
others (`Batcher.follow`)."""

from dataclasses import dataclass, field, replace
from math import inf

from penstock.core.buffer import TierRules
from penstock.core.delivery import RetryRules
from penstock.core.room import Room
from penstock.core.sizes import ANY, Sizes
from penstock.types import Seconds


@dataclass(frozen=True, slots=True)
class BatchingRules:
    """What one model's batcher needs to know. Most of these are settings of the same name
    (docs/configuration.md)."""

    model: str = "model"
    max_batch: int = 64
    sizes: Sizes = ANY
    max_wait: Seconds = 0.05
    max_cost: float = inf
    padded_cost: bool = False  # a batch costs rows × its dearest request; else what they cost together
    policy: str = "paced"
    reserve: int = 0
    group_lengths: bool = False
    per_item_parameters: bool = False
    tiers: TierRules = field(default_factory=TierRules)
    retries: RetryRules = field(default_factory=RetryRules)
    breaker_failures: int = 5
    breaker_cooldown: Seconds = 2.0
    max_lanes: int = 256
    processing: Seconds = 3.0  # the longest a batch may run
    shared: bool = False  # other batchers send to the same workers
    ahead: bool = False  # workers take their next batch while they run one

    def can_follow(self, before: "BatchingRules") -> bool:
        """Whether a batcher that goes by the rules `before` can go by these from one moment to the next."""
        kept = replace(
            self, policy=before.policy, max_wait=before.max_wait, reserve=before.reserve, tiers=before.tiers,
            max_lanes=before.max_lanes, processing=before.processing,
        )  # fmt: skip
        return kept == before and len(self.tiers.weights) == len(before.tiers.weights)

    def room(self) -> Room | None:
        """Returns the room in the next batch. None if no `max_cost` bounds it."""
        return None if self.max_cost == inf else Room(self.max_cost, padded=self.padded_cost)
