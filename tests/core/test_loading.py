"""A worker whose first batch takes long is loading: nobody counts on it, and nobody is lost with it."""

from core_kit import ask, batcher_with, finish, offer, outputs, teach, worker

from penstock.core.batcher import Batcher
from penstock.core.refusal import AdmissionRules, refusal
from penstock.core.rules import BatchingRules
from penstock.errors import Overloaded
from penstock.types import Outcome

GREEDY = BatchingRules(policy="greedy")


def refused(batcher: Batcher, now: float) -> Overloaded:
    error = refusal(batcher, AdmissionRules(), ask(now, expires=2.0, deadline=4.0), now)
    assert isinstance(error, Overloaded)
    return error


def test_its_batch_goes_on_and_answers_if_nobody_else_is_there() -> None:
    batcher = batcher_with(1, GREEDY)
    offer(batcher, ask(deadline=60.0))
    ((name, batch),) = batcher.step(0.0).dispatches
    batcher.worker_loading(name, 1.0, None)
    assert not batcher.step(1.0).replies
    batcher.finished(name, batch.id, outputs(batch), 20.0)
    batcher.worker_ready(name)
    assert [reply.outcome for reply in batcher.step(20.0).replies] == [Outcome.SUCCESS]
    assert batcher.fleet.idle == 1


def test_how_long_loading_took_is_not_what_a_batch_takes() -> None:
    batcher = batcher_with(1, GREEDY)
    offer(batcher, ask(deadline=60.0))
    ((name, batch),) = batcher.step(0.0).dispatches
    batcher.worker_loading(name, 1.0, None)
    batcher.finished(name, batch.id, outputs(batch), 20.0)
    assert batcher.curve.samples == 0


def test_its_batch_is_done_by_another_that_has_answered_before() -> None:
    batcher = batcher_with(2, GREEDY)
    teach(batcher, 0.1)
    offer(batcher, ask())
    ((proven, batch),) = batcher.step(0.0).dispatches
    finish(batcher, proven, outputs(batch), 0.1)
    batcher.step(0.1)
    offer(batcher, ask(0.2, deadline=4.0))
    ((slow, first),) = batcher.step(0.2).dispatches
    assert slow != proven
    batcher.worker_loading(slow, 1.2, None)
    effects = batcher.step(1.2)
    assert effects.wake is not None
    ((other, again),) = [*effects.dispatches, *batcher.step(effects.wake).dispatches]
    assert other == proven
    assert again.requests == first.requests
    batcher.finished(slow, first.id, outputs(first), 9.0)  # nobody waits for it any more
    assert not batcher.step(9.0).replies


def test_while_all_are_loading_nobody_is_let_in_and_told_how_long_it_took_last_time() -> None:
    batcher = batcher_with(1, GREEDY)
    offer(batcher, ask(deadline=60.0))
    batcher.step(0.0)
    batcher.worker_loading(worker(0), 1.0, 20.0)
    error = refused(batcher, 5.0)
    assert "loading" in error.message
    assert error.retry_after == 15.0
    assert refused(batcher, 19.9).retry_after == 1.0


def test_of_a_worker_that_never_loaded_before_as_long_again_is_expected() -> None:
    batcher = batcher_with(1, GREEDY)
    offer(batcher, ask(deadline=60.0))
    batcher.step(0.0)
    batcher.worker_loading(worker(0), 1.0, None)
    assert refused(batcher, 1.0).retry_after == 1.0
    assert refused(batcher, 8.0).retry_after == 8.0


def test_one_that_loads_with_another_batchers_batch_is_counted_from_when_that_was_heard_of() -> None:
    batcher = Batcher(BatchingRules(policy="greedy", shared=True))
    batcher.worker_loading(worker(0), 100.0, 20.0)
    assert refused(batcher, 105.0).retry_after == 15.0
    batcher.worker_known(worker(0))
    assert batcher.fleet.loaded_in(106.0) is None
