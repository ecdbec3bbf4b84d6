"""How one model stands, by what its batcher knows: the queue, the capacity, what was learned. The health page and
the metrics page ask, in one process through `served_model`, over a bus through `cluster/batched_models.py`. It
reads the batcher and changes nothing."""

from collections import Counter
from collections.abc import Sequence
from operator import add
from typing import TypedDict

from penstock.core.batcher import Batcher
from penstock.core.capacity import CapacityRules, depth_limits, fleet_capacity, own_capacity
from penstock.core.fleet import Worker
from penstock.core.forecast import expected_wait
from penstock.gauges import BatchingGauges, ModelGauges
from penstock.policy_reason import policy_reason

STATES = ("idle", "busy", "resting", "loading", "offline")


class CapacityHealth(TypedDict):
    """How much the workers can do, how long their batches take, and the depths at which tiers are refused, which
    are None while no batch has been seen."""

    capacity_rps: float
    warning_depth: float | None
    critical_depth: float | None
    max_batch: int
    # Sizes of batches that were run, and the seconds that one is believed to take.
    service_curve: list[tuple[float, float]]


def capacity_health(batcher: Batcher, rules: CapacityRules) -> CapacityHealth:
    """What the health page says of the capacity."""
    known = own_capacity(batcher) > 0.0
    warning, critical = depth_limits(batcher, rules)
    return {
        "capacity_rps": round(fleet_capacity(batcher), 3),
        "warning_depth": round(warning, 1) if known else None,
        "critical_depth": round(critical, 1) if known else None,
        "max_batch": batcher.curve.limit,
        "service_curve": [(round(size, 1), round(seconds, 6)) for size, seconds in batcher.curve.points],
    }


def reason_of(batcher: Batcher) -> str:
    """Returns what the model's policy does now, in a sentence."""
    curve, rules = batcher.curve, batcher.rules
    return policy_reason(
        rules.policy,
        seen=curve.samples > 0,
        workers=batcher.fleet.everywhere,
        best_batch=curve.best_size,
        max_batch=rules.max_batch,
    )


def utilization_of(batcher: Batcher, now: float) -> float:
    """Returns the offered load divided by the capacity that this batcher may count on."""
    offered = own_capacity(batcher)
    return batcher.rate(now) / offered if offered else 0.0


def model_gauges(
    batcher: Batcher, rules: CapacityRules, tiers: Sequence[str], now: float, restarts: int
) -> ModelGauges:
    """What the metrics page shows of a model. `restarts`: how often its backends were started anew."""
    workers = batcher.fleet.workers.values()
    states = Counter(state_of(worker, now) for worker in workers)
    return ModelGauges(
        queue_depth=dict(
            zip(tiers, map(add, batcher.depth.by_tier, batcher.apart.depth.by_tier), strict=True)
        ),
        workers={state: states[state] for state in STATES},
        busy_seconds=sum(worker.busy_for(now) for worker in workers),
        utilization=utilization_of(batcher, now),
        capacity=fleet_capacity(batcher),
        restarts=restarts,
        largest_fitting=min(batcher.parts.safe_sizes.smallest().values(), default=None),
        batching=batching_gauges(batcher, rules, tiers, now),
    )


def batching_gauges(
    batcher: Batcher, rules: CapacityRules, tiers: Sequence[str], now: float
) -> BatchingGauges:
    curve, (warning, critical) = batcher.curve, depth_limits(batcher, rules)
    return BatchingGauges(
        queue_limit=rules.max_queue,
        expected_wait=expected_wait(batcher, now),
        refusal_depths={"warning": warning, "critical": critical} if own_capacity(batcher) else {},
        retry_budget=batcher.delivery.budget.left(now),
        service={"one": curve.single, "full": curve.full},
        best_batch=curve.best_size,
        max_batch=batcher.rules.max_batch,
        policy=batcher.rules.policy,
        policy_reason=reason_of(batcher),
        arrivals=batcher.rate(now),
        curve=curve_points(batcher),
        refused=dict(zip(tiers, batcher.refused, strict=True)),
    )


def curve_points(batcher: Batcher) -> list[tuple[int, float]]:
    """Returns some sizes of batches up to the largest, each with the seconds that it is believed to take; none
    while no batch has been seen."""
    curve, largest = batcher.curve, batcher.rules.max_batch
    if not curve.samples:
        return []
    sizes = {1, largest, *(2**power for power in range(largest.bit_length()) if 2**power < largest)}
    return [(size, curve(size)) for size in sorted({*sizes, curve.best_size})]


def state_of(worker: Worker, now: float) -> str:
    """How a worker stands. `resting`: its breaker is open. Only its slot can tell whether an offline worker is
    `full`."""
    if not worker.ready:
        return "loading" if worker.loading else "offline"
    if worker.batch is not None:
        return "busy"
    return "resting" if worker.on_probation and worker.open_until > now else "idle"
