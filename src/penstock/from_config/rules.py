"""The rules of batching, admission and capacity, made from the configuration. Whoever makes a batcher calls this:
`penstock serve` for each model (`roles/model.py`), a batcher over a bus when a model is announced
(`cluster/batched_models.py`), and the simulator (`roles/simulation.py`). Whoever makes slots takes the padding from
here, and gateways the size of the largest batch."""

from penstock.config import Config, Model
from penstock.config.batch_sizes import POWERS
from penstock.config.sections import PADDED
from penstock.core.buffer import TierRules
from penstock.core.capacity import CapacityRules
from penstock.core.delivery import RetryRules
from penstock.core.refusal import AdmissionRules
from penstock.core.rules import BatchingRules
from penstock.core.sizes import ANY, Sizes, powers_to
from penstock.from_config.tiers import tier_names
from penstock.runtime.padding import Padding


def admission_rules(config: Config) -> AdmissionRules:
    """Returns how much of one model may wait."""
    return AdmissionRules(config.limits.max_queue, config.limits.max_queue_bytes)


def capacity_rules(config: Config) -> CapacityRules:
    """Returns how tiers share the capacity and the queue."""
    tiers = config.tiers
    shares = tuple(tiers.levels[name].queue_share for name in tier_names(config))
    return CapacityRules(
        tiers.lowest_share,
        tiers.warning,
        tiers.critical,
        tiers.reference_rps,
        config.limits.max_queue,
        shares if any(share < 1.0 for share in shares) else (),
    )


def sizes_of(model: Model) -> Sizes:
    """Returns the sizes that the model's batches may have."""
    said = model.batch_sizes
    if isinstance(said, tuple):
        return Sizes(said)
    return powers_to(model.max_batch) if said == POWERS else ANY


def largest_batch(model: Model) -> int:
    """Returns how many requests one batch of the model holds at most."""
    allowed = sizes_of(model).allowed
    return allowed[-1] if allowed else model.max_batch


def padding_of(model: Model) -> Padding | None:
    """Returns what fills the model's batches up to an allowed size; None if they may have any size."""
    sizes = sizes_of(model)
    return Padding(sizes, per_item=model.parameters == "per_item") if sizes.allowed else None


def batching_rules(name: str, config: Config) -> BatchingRules:
    """Returns how the batches of a model are formed and tried again."""
    model, retries = config.models[name], config.retries
    levels = [config.tiers.levels[name] for name in tier_names(config)]
    return BatchingRules(
        model=name,
        max_batch=largest_batch(model),
        sizes=sizes_of(model),
        max_wait=model.max_wait,
        max_cost=float("inf") if model.max_cost is None else model.max_cost,
        padded_cost=model.batch_cost == PADDED,
        policy=model.policy,
        reserve=model.reserve,
        group_lengths=model.group_lengths,
        per_item_parameters=model.parameters == "per_item",
        tiers=TierRules(
            weights=tuple(level.weight for level in levels),
            strict=config.tiers.order == "strict",
            ageing=config.tiers.ageing,
        ),
        retries=RetryRules(
            attempts=retries.attempts,
            base=retries.base,
            longest=retries.max,
            budget_ratio=retries.budget_ratio,
            budget_per_second=retries.budget_per_second,
        ),
        breaker_failures=retries.breaker_failures,
        breaker_cooldown=retries.breaker_cooldown,
        max_lanes=config.limits.max_lanes,
        processing=config.timeouts_of(name).processing,
        ahead=not model.protocol,  # an endpoint of somebody else's has one batch at a time
    )
