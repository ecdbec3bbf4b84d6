"""What fits into a batch by cost: the sum, or as a padded model pays it."""

import pytest
from core_kit import ask, batcher_with, finish, offer, outputs, worker
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.batcher import Batcher
from penstock.core.buffer import Buffer, Depth, TierRules
from penstock.core.dearest import SLACK, Dearest
from penstock.core.queued import Queued
from penstock.core.room import Room
from penstock.core.rules import BatchingRules
from penstock.core.sizes import Sizes
from penstock.types import Reason, Seconds


def padded_buffer(*costs: float) -> tuple[Buffer, list[Queued]]:
    buffer, requests = Buffer(TierRules(), Depth(3), padded=True), [ask(cost=cost) for cost in costs]
    for request in requests:
        buffer.push(request)
    return buffer, requests


def taken(buffer: Buffer, most: float, count: int = 64) -> list[float]:
    return [request.cost for request in buffer.take(count, Room(most, padded=True), 0.0)]


@pytest.mark.parametrize(
    ("padded", "costs", "fits"),
    [
        (False, (4.0, 4.0, 2.0, 0.5), [True, True, True, False]),
        (True, (4.0, 4.0, 2.0), [True, True, False]),
        (True, (2.0, 2.0, 2.0, 2.0, 2.0, 2.0), [True] * 5 + [False]),
        (True, (1.0, 1.0, 5.0, 1.0), [True, True, False, True]),
        (True, (12.0, 1.0), [True, False]),
        (False, (12.0, 1.0), [True, False]),
    ],
)
def test_a_batch_has_room_for_the_sum_or_for_rows_times_the_dearest(
    padded: bool, costs: tuple[float, ...], fits: list[bool]
) -> None:
    room = Room(10.0, padded=padded)
    assert [room.takes(cost) for cost in costs] == fits


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    costs=st.lists(st.sampled_from([0.0, 1.0, 3.0, 7.0, 20.0]), min_size=1, max_size=30),
    tenants=st.integers(1, 3),
)
def test_padded_batches_cost_no_more_than_one_may_whoever_takes_turns(
    costs: list[float], tenants: int
) -> None:
    buffer = Buffer(TierRules(), Depth(3), padded=True)
    requests = [
        ask(cost=cost, tenant=str(place % tenants), tier=place % 2) for place, cost in enumerate(costs)
    ]
    for request in requests:
        buffer.push(request)
    while buffer.waiting:
        assert buffer.together == buffer.waiting * max(each.cost for each in requests if each.waiting)
        batch = taken(buffer, 10.0)
        assert len(batch) == 1 or len(batch) * max(batch) <= 10.0
    assert buffer.together == buffer.cost == 0.0


def test_the_dearest_that_waits_is_known_whoever_leaves() -> None:
    buffer, requests = padded_buffer(1.0, 9.0, 4.0)
    assert buffer.together == 27.0
    buffer.discard(requests[1])
    assert buffer.together == 8.0
    assert taken(buffer, 100.0, count=1) == [1.0]
    assert buffer.together == 4.0


def test_the_dead_below_the_dearest_do_not_pile_up() -> None:
    dearest = Dearest()
    first = ask(cost=2.0)
    first.waiting = True
    dearest.push(first)
    for _ in range(10 * SLACK):
        dearest.push(ask(cost=1.0))  # does not wait any more
        dearest.tidy(1)
    assert len(dearest) <= SLACK + 5
    assert dearest.cost == 2.0


def sent(batcher: Batcher, now: Seconds = 0.0) -> list[tuple[int, Reason]]:
    return [(batch.size, batch.reason) for _, batch in batcher.step(now).dispatches]


def test_a_padded_batch_goes_as_soon_as_its_rows_times_the_dearest_are_as_much_as_it_may_cost() -> None:
    batcher = batcher_with(1, BatchingRules(policy="window", max_cost=12.0, padded_cost=True))
    offer(batcher, ask(cost=4.0), ask(cost=1.0))
    assert sent(batcher) == []
    offer(batcher, ask(cost=1.0))
    assert sent(batcher) == [(3, Reason.COST)]


def test_sizes_are_padded_only_as_far_as_the_dearest_allows() -> None:
    rules = BatchingRules(
        policy="greedy", max_cost=40.0, padded_cost=True, sizes=Sizes((1, 4, 16)), max_batch=16
    )
    batcher = batcher_with(1, rules)
    offer(batcher, *(ask(cost=cost) for cost in (10.0, 1.0, 1.0, 1.0, 1.0)))
    ((_, batch),) = batcher.step(0.0).dispatches
    assert batch.size == 4
    finish(batcher, worker(0), outputs(batch), 0.1)


# ---- lanes of like lengths ----------------------------------------------------------------------------------


def run(batcher: Batcher, length: int, seconds: Seconds, times: int, now: Seconds) -> Seconds:
    for _ in range(times):
        offer(batcher, ask(now, length=length))
        ((_, batch),) = batcher.step(now).dispatches
        now += seconds
        finish(batcher, worker(0), outputs(batch), now)
        batcher.step(now)
    return now


def test_what_long_inputs_take_is_not_forgotten_for_all_the_short_ones_after_them() -> None:
    batcher = batcher_with(1, BatchingRules(policy="greedy", group_lengths=True))
    now = run(batcher, 4000, 1.0, 8, 0.0)
    run(batcher, 10, 0.01, 300, now)
    long, short = batcher.lanes[b"", 12], batcher.lanes[b"", 4]
    assert long.curve(1) == pytest.approx(1.0)
    assert short.curve(1) == pytest.approx(0.01)


def test_a_long_input_is_not_cut_short_by_what_short_ones_took() -> None:
    batcher = batcher_with(1, BatchingRules(policy="greedy", group_lengths=True, processing=30.0))
    now = run(batcher, 10, 0.01, 100, 0.0)
    offer(batcher, ask(now, length=10))
    ((_, batch),) = batcher.step(now).dispatches
    assert batch.limit == 1.0
    finish(batcher, worker(0), outputs(batch), now)
    offer(batcher, ask(now, length=4000))
    ((_, batch),) = batcher.step(now).dispatches
    assert batch.limit == 30.0


def test_a_batch_of_a_lane_that_was_forgotten_may_run_as_long_as_any() -> None:
    batcher = batcher_with(1, BatchingRules(group_lengths=True))
    assert batcher.lanes.own_curve_of(ask(length=7)).samples == 0
