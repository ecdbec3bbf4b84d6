"""Requests that are taken in together stand as if they had come one by one."""

from random import Random

import pytest
from core_kit import ask, batcher_with, finish, offer, outputs, worker
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.admission import Admission
from penstock.core.batcher import Batcher
from penstock.core.buffer import Buffer, Depth, TierRules
from penstock.core.capacity import CapacityRules
from penstock.core.meters import ArrivalMeter, RateMeter
from penstock.core.queued import Queued
from penstock.core.refusal import AdmissionRules
from penstock.core.room import Room
from penstock.core.rules import BatchingRules
from penstock.types import Seconds

BEFORE = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 2), st.sampled_from([3.0, 9.0])), max_size=12
)


def buffers(padded: bool) -> tuple[Buffer, Buffer]:
    return Buffer(TierRules(), Depth(3), padded=padded), Buffer(TierRules(), Depth(3), padded=padded)


def state(buffer: Buffer, taken: list[Queued]) -> tuple[object, ...]:
    return [request.key for request in taken], buffer.waiting, buffer.cost, buffer.together, buffer.tenants


def twin(request: Queued) -> Queued:
    return Queued(
        request.key, request.model, request.input, request.arrival, request.expires, request.deadline,
        tenant=request.tenant, tier=request.tier, cost=request.cost,
    )  # fmt: skip


@settings(deadline=None, derandomize=True, max_examples=80)
@given(
    before=BEFORE,
    number=st.integers(1, 9),
    limit=st.sampled_from([1.0, 5.0, 20.0]),
    padded=st.booleans(),
    takes=st.lists(st.integers(1, 5), max_size=8),
    most=st.sampled_from([None, 2.0, 4.0]),
)
def test_the_order_and_the_books_are_the_same(
    before: list[tuple[str, int, float]],
    number: int,
    limit: Seconds,
    padded: bool,
    takes: list[int],
    most: float | None,
) -> None:
    earlier = [ask(tenant=tenant, tier=tier, deadline=limit) for tenant, tier, limit in before]
    alike = [ask(0.1 * each, tenant="a", expires=limit, deadline=limit) for each in range(number + 1)]
    one, other = buffers(padded)
    for request in (*earlier, alike[0]):
        one.push(twin(request))
        other.push(twin(request))
    one.extend([twin(request) for request in alike[1:]])
    for request in alike[1:]:
        other.push(twin(request))
    for count in takes:
        if one.waiting:
            ours, theirs = [
                buffer.take(count, None if most is None else Room(most, padded=padded), 2.0)
                for buffer in (one, other)
            ]
            assert state(one, ours) == state(other, theirs)
            for horizon in (0.0, 6.0):
                urgent, same = one.most_urgent(horizon), other.most_urgent(horizon)
                assert (urgent and urgent.key) == (same and same.key)


@pytest.mark.parametrize("kind", [RateMeter, ArrivalMeter])
def test_arrivals_that_are_counted_together_are_counted_alike(kind: type[RateMeter]) -> None:
    rng, now, times = Random(3), 0.0, list[Seconds]()
    for _ in range(3000):
        now += rng.expovariate(200.0)
        times.append(now)
    together, singly = kind(0.25), kind(0.25)
    for start in range(0, len(times), 7):
        together.add_each(times[start : start + 7])
    for time in times:
        singly.add(time)
    assert together.rate(now + 0.01) == singly.rate(now + 0.01)
    if isinstance(together, ArrivalMeter) and isinstance(singly, ArrivalMeter):
        assert together.peak == singly.peak


# ---- who is let in together -------------------------------------------------------------------------------------


def busy(rules: AdmissionRules | None = None) -> tuple[Batcher, Admission, Queued]:
    """A batcher that has learned what a batch takes, with its worker busy and one request waiting."""
    batcher = batcher_with(1, BatchingRules(policy="greedy", max_batch=8))
    admission = Admission(batcher, rules or AdmissionRules(), CapacityRules())
    now = 0.0
    for _ in range(10):
        offer(batcher, ask(now))
        batcher.step(now)
        now += 0.1
        held = batcher.fleet.workers[worker(0)].batch
        assert held is not None
        finish(batcher, worker(0), outputs(held), now)
        batcher.step(now)
    offer(batcher, ask(now))
    batcher.step(now)
    waits = ask(now)
    assert admission.refusal(waits, now) is None
    batcher.offer(waits, now)
    return batcher, admission, waits


def test_as_many_are_let_in_together_as_would_be_one_by_one_without_a_closer_look() -> None:
    batcher, admission, waits = busy()
    number = admission.let_in(waits, 5)
    assert number == 5
    batcher.offer_more(waits, [ask(waits.arrival) for _ in range(number)])
    assert batcher.depth.total == 6
    assert 0 < admission.let_in(waits, 10_000) < 10_000


def test_nobody_is_let_in_together_once_something_has_happened() -> None:
    batcher, admission, waits = busy()
    held = batcher.fleet.workers[worker(0)].batch
    assert held is not None
    finish(batcher, worker(0), outputs(held), waits.arrival + 0.1)
    assert admission.let_in(waits, 5) == 0


def test_those_in_a_hurry_are_looked_at_one_by_one() -> None:
    _, admission, waits = busy()
    assert admission.let_in(ask(waits.arrival, deadline=0.05), 5) == 0


def test_no_more_bytes_are_let_in_together_than_the_queue_holds() -> None:
    _, admission, waits = busy(AdmissionRules(max_queue_bytes=30))
    assert admission.let_in(waits, 50) == (27 - 3) // 3
