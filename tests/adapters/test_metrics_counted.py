"""What the counters say of replies, whatever came back together."""

from bisect import bisect_left
from collections.abc import Sequence
from random import Random

import pytest

from penstock.adapters.observe.exemplars import A_SPAN
from penstock.adapters.observe.histogram import COARSE, FINE, Histogram
from penstock.adapters.observe.metrics import Metrics
from penstock.types import (
    Accepted,
    Batch,
    Execution,
    Failure,
    GivenUp,
    Outcome,
    Reason,
    Refusal,
    Reply,
    WorkerId,
)


def request(arrival: float) -> Accepted:
    return Accepted(f"r{arrival}", "m", b"1", arrival, arrival + 10, arrival + 20)


def executed(batch: int, started: float, *, counted: bool = True) -> Execution:
    return Execution(WorkerId("w"), batch, 2, started, 0.03, counted=counted)


def answer(arrival: float, execution: Execution) -> Reply:
    return Reply(request(arrival), Outcome.SUCCESS, b"1", None, execution)


def count(*values: float, bounds: Sequence[float] = FINE) -> list[int]:
    histogram = Histogram(bounds)
    for value in values:
        histogram.observe(value)
    return histogram.counts


@pytest.mark.parametrize("many", [1, 2, 64])
def test_values_that_are_observed_together_count_as_each_alone(many: int) -> None:
    random = Random(many)
    values = sorted(random.choice([*FINE, random.expovariate(3.0), 20.0]) for _ in range(many))
    histogram = Histogram(FINE)
    histogram.observe_all(values)
    expected = [0] * (len(FINE) + 1)
    for value in values:
        expected[bisect_left(FINE, value)] += 1
    assert histogram.counts == expected
    assert histogram.total == pytest.approx(sum(values))


def test_members_of_a_batch_are_counted_each_and_their_batch_once_whatever_stands_between_them() -> None:
    metrics, first, second = Metrics(["m"]), executed(1, 1.0), executed(2, 1.5)
    failed = GivenUp(request(0.2), Outcome.FAILED, failure=Failure("BACKEND_FAILED", "no"))
    again = answer(0.4, executed(0, 0.4, counted=False))
    metrics.answered(
        [answer(0.9, first), failed, answer(0.1, first), again, answer(0.5, first), answer(1.4, second)], 2.0
    )
    model = metrics.models["m"]
    assert (model.succeeded, dict(model.outcomes)) == (5, {"BACKEND_FAILED": 1})
    waits = (1.0 - 0.9, 1.0 - 0.1, 1.0 - 0.5, 1.5 - 1.4)
    assert model.queue_wait.counts == count(*waits, bounds=COARSE)
    assert model.latency.counts == count(2.0 - 0.9, 2.0 - 0.1, 2.0 - 0.4, 2.0 - 0.5, 2.0 - 1.4)
    assert model.queue_wait.total == pytest.approx(0.1 + 0.9 + 0.5 + 0.1)


def test_each_request_counts_at_its_door_once_however_it_ended() -> None:
    metrics, batch = Metrics(["m"]), executed(1, 1.0)
    failed = Reply(request(0.2), Outcome.EXPIRED, failure=Failure("DEADLINE_EXCEEDED", "no"))
    remembered = answer(0.4, executed(0, 0.4, counted=False))
    replies = [answer(0.9, batch), answer(0.8, batch), failed, remembered, answer(0.7, batch)]
    for reply, door in zip(replies, ("native", "tei", "tei", "native", "tei"), strict=True):
        reply.request.door = door
    metrics.answered(replies, 2.0)
    metrics.refused(Refusal("m", "QUOTA_EXCEEDED", "r", "", 2.0, door="tei"))
    assert metrics.succeeded_at == {"native": 2, "tei": 2}
    assert metrics.unsuccessful_at == {("tei", "DEADLINE_EXCEEDED"): 1, ("tei", "QUOTA_EXCEEDED"): 1}


def test_a_batch_is_timed_on_its_worker_if_it_succeeded() -> None:
    metrics = Metrics(["m"])
    batch = Batch(1, "m", b"", [request(0.0), request(0.1)], Reason.FULL, 0.2)
    metrics.ended(batch, executed(1, 0.2), None)
    metrics.ended(batch, executed(2, 0.2), Failure("BACKEND_OUT_OF_MEMORY", "no"))
    model = metrics.models["m"]
    assert (model.worker_latency.counts, model.out_of_memory) == (count(0.03), 1)


def traced(arrival: float, flags: str, execution: Execution, trace: str = "4") -> Reply:
    reply = answer(arrival, execution)
    reply.request.traceparent = f"00-{trace * 32}-{'f' * 16}-{flags}"
    return reply


def test_the_last_request_of_a_bucket_whose_trace_is_recorded_is_its_example() -> None:
    metrics, batch = Metrics(["m"], lambda: 1_700_000_000.5), executed(1, 0.0)
    metrics.answered(
        [
            traced(0.0, "00", batch),
            traced(1.0, "01", batch, "5"),
            traced(1.0, "03", batch, "6"),
            answer(1.9, batch),
        ],
        2.0,
    )
    found = metrics.models["m"].traced.by_bucket
    assert found == {FINE.index(1.0): ("6" * 32, 1.0, 1_700_000_000.5)}


def test_a_request_that_failed_is_no_example_of_latency() -> None:
    metrics = Metrics(["m"])
    failed = traced(0.0, "01", executed(1, 0.0))
    failed.execution, failed.failure = None, Failure("BACKEND_FAILED", "no")
    metrics.answered([failed], 2.0)
    assert not metrics.models["m"].traced.by_bucket


def test_a_busy_server_looks_at_some_requests_only_and_again_a_moment_later() -> None:
    metrics, batch = Metrics(["m"], lambda: 0.0), executed(1, 0.0)
    many = [traced(1.0, "00", batch) for _ in range(A_SPAN - 1)]
    found = metrics.models["m"].traced.by_bucket
    metrics.answered([*many, traced(1.0, "01", batch, "5"), traced(1.5, "01", batch)], 2.0)
    metrics.answered([traced(1.5, "01", batch)], 2.0)
    assert [example.trace_id for example in found.values()] == ["5" * 32]
    metrics.answered([traced(1.5, "01", batch, "6")], 2.2)
    assert [example.trace_id for example in found.values()] == ["5" * 32, "6" * 32]
    assert metrics.models["m"].succeeded == A_SPAN + 3
