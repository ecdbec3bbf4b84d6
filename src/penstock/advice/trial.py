"""Plays one schedule with one setting and says whether the objective was kept. The search for a plan (`plan.py`)
calls it for each number of workers that it considers. The simulator plays, so no server takes part."""

from dataclasses import dataclass

from penstock.advice.arithmetic import Need
from penstock.advice.curve import Curve
from penstock.core.rules import BatchingRules
from penstock.load.report import at_share
from penstock.load.traffic import Schedule
from penstock.sim.kernel import Kernel, Scenario


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of one number of GPUs."""

    workers: int
    latency: float | None  # seconds at the quantile, of all requests; None if so many were not answered
    mean: float | None  # seconds: the mean latency of the requests that were answered
    answered: float  # the part of the requests that was answered in time
    batch: float  # the mean size of a batch
    busy: float  # the part of the GPUs' time in which they ran batches

    def keeps(self, need: Need) -> bool:
        return self.latency is not None and self.latency <= need.objective


def try_workers(curve: Curve, workers: int, need: Need, schedule: Schedule, warmup: float) -> Trial:
    """Simulate this many GPUs. As in a server with a warm-up, each has run every power of two beforehand."""
    longest = max(4.0, 2 * need.objective)
    rules = BatchingRules(max_batch=curve.max_batch, processing=max(3.0, 2 * curve.seconds(curve.max_batch)))
    sizes = [1 << power for power in range(curve.max_batch.bit_length()) if 1 << power < curve.max_batch]
    scenario = Scenario(
        curve.service, workers, rules, queue_limit=longest / 2, request_limit=longest,
        warmed=(*sizes, curve.max_batch), seed=curve.service.seed,
    )  # fmt: skip
    run = Kernel(scenario).run(schedule.times, warmup=warmup)
    ordered = sorted(run.latencies)
    available = workers * (run.ended - warmup)
    return Trial(
        workers,
        latency_at(ordered, run.sent, need.quantile),
        sum(ordered) / len(ordered) if ordered else None,
        len(ordered) / run.sent,
        run.batched / run.batches if run.batches else 0.0,
        run.busy_seconds / available if available > 0 else 0.0,
    )


def latency_at(ordered: list[float], sent: int, quantile: float) -> float | None:
    """Returns the latency at a quantile of all that were sent. Whoever got no answer waited longer than any
    other; None if the quantile is among them."""
    share = quantile * sent / len(ordered) if ordered else 2.0
    return at_share(ordered, share) if share <= 1.0 else None
