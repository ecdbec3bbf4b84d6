"""The settings that one model's batcher goes by. `from_config/rules.py` makes them."""

from dataclasses import dataclass, field
from math import inf

from penstock.core.buffer import TierRules
from penstock.core.delivery import RetryRules
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
