"""What each policy's own waits are worth, in virtual time: `ewma` and `table` are not `window` by other names."""

from array import array
from random import Random

import pytest

from penstock.core.rules import BatchingRules
from penstock.core.sizes import ANY, Sizes, powers_to
from penstock.load.arrivals import poisson
from penstock.load.report import Spread, spread
from penstock.service_model import ServiceModel, parse_service
from penstock.sim.kernel import Kernel, Run, Scenario

SERVICE_MS = 100.0
PATIENT = 1e6  # a deadline nobody misses


def played(policy: str, rate: float, *, workers: int = 6, max_batch: int = 32, seconds: float = 0.1) -> Run:
    """Everything else is as it is by default."""
    scenario = Scenario(
        ServiceModel(a=seconds), workers, BatchingRules(max_batch=max_batch, policy=policy),
        admission=None, queue_limit=PATIENT, request_limit=PATIENT,
    )  # fmt: skip
    return Kernel(scenario).run(poisson(rate, 4000 / rate, Random(1)))


def latency(policy: str, rate: float, *, workers: int = 6, max_batch: int = 32) -> Spread:
    """Milliseconds, at a batch time of 100 ms."""
    return spread(played(policy, rate, workers=workers, max_batch=max_batch).latencies)


def test_ewma_is_quick_when_traffic_is_low() -> None:
    ewma, window = latency("ewma", 10.0), latency("window", 10.0)
    assert ewma.p95 is not None
    assert ewma.p95 <= SERVICE_MS + 10.0
    assert window.p95 is not None
    assert window.p95 >= SERVICE_MS + 45.0


def test_ewma_waits_longer_than_max_wait_where_that_fills_batches() -> None:
    ewma, window = latency("ewma", 400.0), latency("window", 400.0)
    assert window.max is not None
    assert window.max <= SERVICE_MS + 51.0
    assert ewma.max is not None
    assert SERVICE_MS + 75.0 < ewma.max <= SERVICE_MS + 101.0


def test_table_waits_longer_than_max_wait_where_its_row_says_so() -> None:
    """Busy for 0.9 of the time, and a batch of 4 takes 55 ms to fill."""
    table, window = (
        played(policy, 72.0, workers=20, max_batch=4, seconds=1.0) for policy in ("table", "window")
    )
    assert table.batched / table.batches > 1.05 * window.batched / window.batches


def test_table_keeps_up_where_batches_larger_than_its_own_are_needed() -> None:
    """Two workers and batches of up to 256: in batches of 64 they would do a quarter of what they can."""
    for load in (0.7, 0.9, 0.97):
        found = latency("table", load * 2 * 256 / 0.1, workers=2, max_batch=256)
        assert found.max is not None
        assert found.max <= 2 * SERVICE_MS + 20.0


def after_a_stall(policy: str, sizes: Sizes) -> tuple[Spread, float]:
    """One worker at 90 % of what it can do, whose arrivals are held back for 200 ms; and when the queue was gone.
    A batch of 256 has 6 % more throughput than two of 128, and each batch is off by 5 % or so."""
    times = array("d", (max(at, 1.2) if at >= 1.0 else at for at in poisson(15_700, 3.0, Random(1))))
    rules = BatchingRules(max_batch=256, policy=policy, sizes=sizes)
    scenario = Scenario(
        parse_service("a=4.3ms,knee=64,b=54us,jitter=5%"), 1, rules,
        admission=None, queue_limit=PATIENT, request_limit=PATIENT,
    )  # fmt: skip
    kernel, rng = Kernel(scenario), Random(1)
    for size in powers_to(256).allowed * 4:
        kernel.batcher.curve.observe(size, scenario.service.seconds(size, rng.gauss(0.0, 1.0)))
    run = kernel.run(times)
    late = (at for at, seconds in zip(run.finished_at, run.latencies, strict=True) if seconds > 0.05)
    return spread(run.latencies), max(late)


@pytest.mark.parametrize("sizes", [ANY, powers_to(256)])
def test_after_a_stall_the_default_policy_is_as_soon_back_as_greedy(sizes: Sizes) -> None:
    (ours, back), (theirs, theirs_back) = after_a_stall("paced", sizes), after_a_stall("greedy", sizes)
    assert back <= 1.01 * theirs_back
    for figure in ("mean", "p95", "p99"):
        assert getattr(ours, figure) <= 1.01 * getattr(theirs, figure)


class Uneven(ServiceModel):
    """A GPU that takes 0.3 ms more between two batches, and 4 ms more for one in twenty."""

    def seconds(self, n: int, z: float = 0.0, longest: int = 0) -> float:
        return 0.0003 + super().seconds(n, z, longest) + (0.004 if z > 1.645 else 0.0)


def near_capacity(policy: str, seed: int) -> Spread:
    """One worker at nine tenths of what it can do, whose batches vary by a tenth and more."""
    points = ((1, 0.0042), (64, 0.0042), (128, 0.0077), (256, 0.01486))
    rules = BatchingRules(max_batch=256, policy=policy, ahead=True)
    scenario = Scenario(
        Uneven(points=points, jitter=0.1), 1, rules,
        admission=None, queue_limit=PATIENT, request_limit=PATIENT, seed=seed,
    )  # fmt: skip
    kernel, rng = Kernel(scenario), Random(seed)
    for size in powers_to(256).allowed * 4:
        kernel.batcher.curve.observe(size, scenario.service.seconds(size, rng.gauss(0.0, 1.0)))
    return spread(kernel.run(poisson(15_500, 2.0, Random(seed)), warmup=0.4).latencies)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_one_worker_near_capacity_is_not_behind_greedy_because_its_batches_vary(seed: int) -> None:
    """Sizes that look alike are not: what is left behind again and again costs what is missing to keep up."""
    ours, theirs = near_capacity("paced", seed), near_capacity("greedy", seed)
    for figure in ("mean", "p95", "p99"):
        assert getattr(ours, figure) <= 1.15 * getattr(theirs, figure)
