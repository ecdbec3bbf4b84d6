"""A request that is set apart while it waits leaves its lane for good."""

from core_kit import ask, batcher_with, finish, offer, outputs, teach, worker

from penstock.core.batcher import Batcher
from penstock.core.queued import Queued
from penstock.core.rules import BatchingRules
from penstock.types import Outcome

FIRST = worker(0)
ONE_BY_ONE = BatchingRules(policy="greedy", max_batch=1)
PADDED = BatchingRules(policy="greedy", max_batch=1, padded_cost=True, max_cost=100.0)


def one_is_moved(rules: BatchingRules) -> tuple[Batcher, Queued, Queued]:
    """Three wait; the second goes first, and is set apart instead. The first goes to the worker. Returns the one
    that is apart, and the one that is left."""
    batcher = batcher_with(1, rules)
    teach(batcher, 1.0)
    before = ask(tenant="good", deadline=5.0, expires=5.0, cost=5.0)
    moved = ask(tenant="bad", deadline=10.0, expires=10.0, cost=1.0)
    after = ask(tenant="other", deadline=20.0, expires=20.0, cost=5.0)
    offer(batcher, before, moved, after)
    for _ in range(2):
        batcher.apart._convict("bad", 0.0)
    for tenant in ("good", "other"):  # nobody is set apart while nobody else asks
        batcher.apart.holds(ask(tenant=tenant), 0.0)
    batcher.apart.free_at = 100.0
    sent = [batch.requests for _, batch in batcher.step(0.0).dispatches]
    sent += [batch.requests for _, batch in batcher.step(0.0).dispatches]
    assert sent == [[before]]
    assert moved.apart
    return batcher, moved, after


def test_it_is_answered_once_and_takes_nobody_elses_place_with_it() -> None:
    batcher, moved, after = one_is_moved(ONE_BY_ONE)
    replies = batcher.step(10.5).replies
    assert [(reply.request, reply.outcome) for reply in replies] == [(moved, Outcome.EXPIRED)]
    assert batcher.depth.total == 1
    assert batcher.apart.waiting == 0
    finish(batcher, FIRST, outputs(batcher.fleet.workers[FIRST].batch), 11.0)  # type: ignore[arg-type]
    assert [batch.requests for _, batch in batcher.step(11.0).dispatches] == [[after]]
    assert batcher.depth.total == 0


def test_its_cost_no_longer_counts_in_its_lane() -> None:
    batcher, moved, after = one_is_moved(PADDED)
    [lane] = batcher.lanes.values()
    after.waiting = False
    assert moved.waiting
    assert lane.buffer._dearest is not None
    assert lane.buffer._dearest.cost == 0.0
