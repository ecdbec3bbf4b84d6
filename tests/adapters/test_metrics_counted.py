"""What the counters say of replies, whatever came back together."""

from bisect import bisect_left
from random import Random

import pytest

from penstock.adapters.observe.metrics import SECONDS, Histogram, Metrics
from penstock.types import Accepted, Execution, Failure, GivenUp, Outcome, Reply, WorkerId


def request(arrival: float) -> Accepted:
    return Accepted(f"r{arrival}", "m", b"1", arrival, arrival + 10, arrival + 20)


def executed(batch: int, started: float, *, counted: bool = True) -> Execution:
    return Execution(WorkerId("w"), batch, 2, started, 0.03, counted=counted)


def answer(arrival: float, execution: Execution) -> Reply:
    return Reply(request(arrival), Outcome.SUCCESS, b"1", None, execution)


def count(*values: float) -> list[int]:
    histogram = Histogram(SECONDS)
    for value in values:
        histogram.observe(value)
    return histogram.counts


@pytest.mark.parametrize("many", [1, 2, 64])
def test_values_that_are_observed_together_count_as_each_alone(many: int) -> None:
    random = Random(many)
    values = sorted(random.choice([*SECONDS, random.expovariate(3.0), 20.0]) for _ in range(many))
    histogram = Histogram(SECONDS)
    histogram.observe_all(values)
    expected = [0] * (len(SECONDS) + 1)
    for value in values:
        expected[bisect_left(SECONDS, value)] += 1
    assert histogram.counts == expected
    assert histogram.total == pytest.approx(sum(values))


def test_members_of_a_batch_are_counted_each_and_their_batch_once_whatever_stands_between_them() -> None:
    metrics, first, second = Metrics(["m"]), executed(1, 1.0), executed(2, 1.5)
    failed = GivenUp(request(0.2), Outcome.FAILED, failure=Failure("BATCH_REJECTED", "no"))
    again = answer(0.4, executed(0, 0.4, counted=False))
    metrics.answered(
        [answer(0.9, first), failed, answer(0.1, first), again, answer(0.5, first), answer(1.4, second)], 2.0
    )
    model = metrics.models["m"]
    assert (model.succeeded, dict(model.outcomes)) == (5, {"BATCH_REJECTED": 1})
    assert model.worker_latency.counts == count(0.03, 0.03)
    assert model.queue_wait.counts == count(1.0 - 0.9, 1.0 - 0.1, 1.0 - 0.5, 1.5 - 1.4)
    assert model.latency.counts == count(2.0 - 0.9, 2.0 - 0.1, 2.0 - 0.4, 2.0 - 0.5, 2.0 - 1.4)
    assert model.queue_wait.total == pytest.approx(0.1 + 0.9 + 0.5 + 0.1)
