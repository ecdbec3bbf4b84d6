"""What each policy's own waits are worth, in virtual time: `ewma` and `table` are not `window` by other names."""

from random import Random

from penstock.core.rules import BatchingRules
from penstock.load.arrivals import poisson
from penstock.load.report import Spread, spread
from penstock.service_model import ServiceModel
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
