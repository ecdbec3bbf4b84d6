"""A backend that wants its batch later has not failed: nobody has had an attempt, and the worker is well."""

from core_kit import answered, ask, batcher_with, finish, offer, outputs, sent, teach, worker

from penstock.core.dead_letters import is_dead
from penstock.core.rules import BatchingRules
from penstock.types import Failure, GivenUp, Outcome

GREEDY = BatchingRules(policy="greedy", max_batch=4)
FIRST, SECOND = worker(0), worker(1)


def busy(seconds: float | None = 1.0) -> Failure:
    return Failure("SERVICE_OVERLOADED", "endpoint answered 429: it is busy", retry_after=seconds)


def test_it_is_sent_again_as_it_was_however_often_that_happens() -> None:
    batcher = batcher_with(1, GREEDY)
    offer(batcher, *(ask() for _ in range(4)))
    assert sent(batcher.step(0.0)) == [4]
    for moment in range(1, 20):
        finish(batcher, FIRST, busy(), float(moment))
        batcher.worker_gone(FIRST, float(moment), moment + 0.5)
        assert sent(batcher.step(float(moment))) == []
        batcher.worker_ready(FIRST)
        assert sent(batcher.step(moment + 0.5)) == [4]
    batch = batcher.fleet.workers[FIRST].batch
    assert batch is not None
    assert [request.executions for request in batch.requests] == [0] * 4
    finish(batcher, FIRST, outputs(batch), 20.0)
    assert len(answered(batcher.step(20.0), Outcome.SUCCESS)) == 4


def test_no_breaker_opens_however_often_that_happens() -> None:
    batcher = batcher_with(1, GREEDY)
    offer(batcher, ask())
    for moment in range(30):
        assert sent(batcher.step(float(moment))) == [1]
        finish(batcher, FIRST, busy(None), float(moment))


def test_another_worker_takes_it_at_once() -> None:
    batcher = batcher_with(2, GREEDY)
    offer(batcher, ask(deadline=2.0, expires=2.0))
    [(first, _)] = batcher.step(0.0).dispatches
    finish(batcher, first, busy(60.0), 0.1)
    batcher.worker_gone(first, 0.1, 60.1)
    [(second, batch)] = batcher.step(0.1).dispatches
    assert {first, second} == {FIRST, SECOND}
    assert batch.size == 1


def test_who_cannot_wait_so_long_is_told_at_once_when_to_come_again() -> None:
    batcher = batcher_with(1, GREEDY)
    teach(batcher, 0.1)
    offer(batcher, ask(deadline=2.0, expires=2.0), ask(deadline=60.0))
    batcher.step(0.0)
    finish(batcher, FIRST, busy(3.0), 0.1)
    batcher.worker_gone(FIRST, 0.1, 3.1)
    effects = batcher.step(0.1)
    [reply] = effects.replies
    assert isinstance(reply, GivenUp)
    assert reply.failure is not None
    assert (reply.failure.code, reply.failure.retry_after) == ("SERVICE_OVERLOADED", 3.0)
    assert not is_dead(reply, 3)
    batcher.worker_ready(FIRST)
    assert sent(batcher.step(3.1)) == [1]


def test_who_has_waited_in_vain_is_told_the_same() -> None:
    batcher = batcher_with(1, GREEDY)
    offer(batcher, ask(deadline=2.0, expires=2.0))
    batcher.step(0.0)
    finish(batcher, FIRST, busy(None), 0.1)
    batcher.worker_gone(FIRST, 0.1, None)
    [reply] = batcher.step(2.1).replies
    assert isinstance(reply, GivenUp)
    assert reply.failure is not None
    assert reply.failure.code == "SERVICE_OVERLOADED"
    assert not is_dead(reply, 3)
