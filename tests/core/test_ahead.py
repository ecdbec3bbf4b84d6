"""A busy worker is handed its next batch shortly before it needs it, and only one that would not go otherwise."""

from dataclasses import replace

import pytest
from core_kit import CRASHED, REFUSED, ask, batcher_with, finish, offer, outputs, sent, worker

from penstock.core.ahead import EASY, LEAD
from penstock.core.batcher import Batcher
from penstock.core.buffer import TierRules
from penstock.core.effects import Effects
from penstock.core.forecast import forecast
from penstock.core.queued import Sealed
from penstock.core.rules import BatchingRules
from penstock.types import Failure, Outcome, Reason, Result, Rung, WarmUp

SECONDS = 0.1  # that each batch takes, whatever its size
GREEDY = BatchingRules(policy="greedy", max_batch=4, ahead=True)
FIRST = worker(0)


def handed(effects: Effects) -> list[int]:
    return [batch.size for _, batch in effects.ahead]


def busy(workers: int = 1, rules: BatchingRules = GREEDY, *, answered: bool = True) -> Batcher:
    """Workers that have answered before, and have begun a full batch at 0."""
    batcher = batcher_with(workers, rules)
    if answered:
        rung = Rung(rules.max_batch, SECONDS, (SECONDS,) * 10)
        for number in range(workers):
            batcher.worker_warmed(worker(number), WarmUp((rung,), real=True), 0.0)
    offer(batcher, *(ask() for _ in range(workers * rules.max_batch)))
    assert sent(batcher.step(0.0)) == [rules.max_batch] * workers
    return batcher


def behind(batcher: Batcher, now: float = SECONDS - LEAD) -> Sealed:
    """A batch that was handed to the first worker while that runs another."""
    offer(batcher, *(ask(now) for _ in range(batcher.rules.max_batch)))
    ((name, batch),) = batcher.step(now).ahead
    assert name == FIRST
    assert batch.ahead
    return batch


def test_a_full_batch_is_handed_over_shortly_before_the_one_in_hand_ends_and_begins_when_it_has() -> None:
    batcher = busy()
    offer(batcher, *(ask() for _ in range(6)))
    effects = batcher.step(0.0)
    assert (handed(effects), effects.wake) == ([], SECONDS - LEAD)
    effects = batcher.step(SECONDS - LEAD)
    assert (handed(effects), sent(effects)) == ([4], [])
    assert batcher.waiting == 2
    finish(batcher, FIRST, Result([b"1"] * 4), 0.11)
    effects = batcher.step(0.11)
    ((name, batch),) = effects.dispatches
    assert (name, batch.sealed, batch.sent, batch.ahead) == (FIRST, SECONDS - LEAD, 0.11, True)
    assert len(effects.replies) == 4
    finish(batcher, FIRST, outputs(batch), 0.21)
    effects = batcher.step(0.21)
    execution = effects.replies[0].execution
    assert execution is not None
    assert execution.started == 0.11
    assert execution.seconds == pytest.approx(0.1)
    assert sent(effects) == [2]
    assert batcher.fleet.workers[FIRST].busy_for(0.21) == pytest.approx(0.21)


def test_a_step_is_called_for_as_soon_as_a_full_batch_waits() -> None:
    batcher = busy()
    batcher.offer(ask(), 0.0)
    batcher.step(SECONDS - LEAD)
    wanted = [batcher.offer(ask(0.09), 0.09) for _ in range(4)]
    assert wanted == [False, False, True, False]
    assert handed(batcher.step(0.09)) == [4]


def test_a_batch_that_may_yet_grow_is_not_handed_over() -> None:
    batcher = busy()
    offer(batcher, *(ask() for _ in range(3)))
    assert handed(batcher.step(0.09)) == []


def test_as_many_are_waited_for_as_the_policy_calls_full() -> None:
    """By the curve two are as good as four; `greedy` calls only four full."""
    batcher = busy()
    for _ in range(10):
        batcher.curve.observe(2, SECONDS / 2)
    assert batcher.curve.best_of(4) == 2
    offer(batcher, ask(), ask())
    assert handed(batcher.step(0.09)) == []
    assert [batcher.offer(ask(0.09), 0.09) for _ in range(2)] == [False, True]
    assert handed(batcher.step(0.09)) == [4]


def test_one_that_would_leave_crumbs_waits_for_them() -> None:
    """By the curve three are nearly as good as four, and nobody sends three and then one."""
    batcher = busy()
    for _ in range(10):
        batcher.curve.observe(3, 0.757 * SECONDS)
    assert (batcher.curve.best_size, batcher.curve.best_of(4)) == (3, 4)
    offer(batcher, *(ask() for _ in range(3)))
    assert handed(batcher.step(0.09)) == []
    assert batcher.offer(ask(0.09), 0.09)
    assert handed(batcher.step(0.09)) == [4]


def test_a_batch_that_is_full_by_its_cost_is_handed_over() -> None:
    batcher = busy(rules=replace(GREEDY, max_cost=40.0))
    offer(batcher, *(ask(cost=20.0) for _ in range(4)))
    ((_, batch),) = batcher.step(0.09).ahead
    assert (batch.size, batch.reason) == (2, Reason.COST)


def test_one_batch_ahead_and_no_more() -> None:
    batcher = busy()
    behind(batcher)
    offer(batcher, *(ask() for _ in range(8)))
    assert handed(batcher.step(SECONDS)) == []


def test_of_several_workers_each_has_one_if_enough_waits_for_all() -> None:
    batcher = busy(2)
    offer(batcher, *(ask() for _ in range(7)))
    assert handed(batcher.step(0.09)) == []
    offer(batcher, ask())
    assert [(name, batch.size) for name, batch in batcher.step(0.09).ahead] == [
        (FIRST, 4), (worker(1), 4),
    ]  # fmt: skip


def test_a_worker_that_should_be_done_and_is_not_gets_nothing() -> None:
    batcher = busy()
    offer(batcher, *(ask() for _ in range(4)))
    assert handed(batcher.step(SECONDS + LEAD + 0.001)) == []


def test_what_could_not_make_it_behind_the_batch_in_hand_is_not_sealed() -> None:
    batcher = busy()
    offer(batcher, *(ask(deadline=0.19) for _ in range(4)))
    assert handed(batcher.step(0.085)) == []


@pytest.mark.parametrize("pressure", [0.0, EASY])
def test_a_worker_that_is_nearly_full_gets_nothing(pressure: float) -> None:
    batcher = busy()
    finish(batcher, FIRST, Result([b"1"] * 4, pressure=pressure), SECONDS)
    offer(batcher, *(ask(SECONDS) for _ in range(4)))
    assert sent(batcher.step(SECONDS)) == [4]
    offer(batcher, *(ask(SECONDS) for _ in range(4)))
    assert handed(batcher.step(2 * SECONDS)) == ([4] if pressure < EASY else [])


def test_a_worker_that_has_not_answered_since_it_started_gets_nothing() -> None:
    batcher = busy(answered=False)
    offer(batcher, *(ask() for _ in range(4)))
    assert handed(batcher.step(0.0)) == []


def test_a_worker_that_has_failed_gets_nothing_until_it_succeeds() -> None:
    batcher = busy()
    finish(batcher, FIRST, REFUSED, SECONDS)
    batcher.step(SECONDS)
    offer(batcher, *(ask(SECONDS) for _ in range(4)))
    assert handed(batcher.step(2 * SECONDS)) == []


def test_while_draining_nothing_is_handed_ahead() -> None:
    batcher = busy()
    batcher.drain()
    offer(batcher, *(ask() for _ in range(4)))
    assert handed(batcher.step(0.09)) == []


def test_what_was_handed_ahead_goes_on_after_a_batch_that_was_refused() -> None:
    batcher = busy()
    batch = behind(batcher)
    finish(batcher, FIRST, REFUSED, SECONDS)
    effects = batcher.step(SECONDS)
    assert effects.dispatches == [(FIRST, batch)]
    assert batcher.waiting == 4
    finish(batcher, FIRST, outputs(batch), 2 * SECONDS)
    assert sent(batcher.step(2 * SECONDS)) == [2]


@pytest.mark.parametrize("told", ["crash", "loss", "both"])
def test_with_a_lost_worker_what_was_ahead_has_cost_nobody_an_attempt(told: str) -> None:
    batcher = busy()
    batch = behind(batcher)
    members = list(batch.requests)
    if told != "loss":
        finish(batcher, FIRST, CRASHED, SECONDS)
    if told != "crash":
        batcher.worker_gone(FIRST, SECONDS)
    assert batcher.waiting == 8
    batcher.worker_ready(FIRST)
    batcher.fleet.workers[FIRST].cooldown = 0.0
    seen = []
    now = SECONDS
    for _ in range(4):
        now += SECONDS
        for name, each in batcher.step(now).dispatches:
            seen.append((each.size, each.requests == members))
            finish(batcher, name, outputs(each), now)
    assert sorted(seen) == [(2, False), (2, False), (4, True)], "nobody is mixed in"
    assert [request.executions for request in members] == [0] * 4


def test_what_was_ahead_of_a_lost_worker_and_has_no_time_left_is_answered() -> None:
    batcher = busy()
    offer(batcher, *(ask(deadline=0.3) for _ in range(4)))
    assert handed(batcher.step(0.09)) == [4]
    batcher.worker_gone(FIRST, 0.25)
    effects = batcher.step(0.25)
    assert [reply.outcome for reply in effects.given_up] == [Outcome.FAILED] * 4


def test_a_batch_that_its_worker_never_took_goes_again() -> None:
    batcher = busy()
    batch = behind(batcher)
    batcher.finished(FIRST, batch.id, Failure("BACKEND_UNAVAILABLE", "not handed over"), 0.09)
    assert batcher.waiting == 4
    finish(batcher, FIRST, Result([b"1"] * 4), SECONDS)
    ((_, again),) = batcher.step(SECONDS).dispatches
    assert (again.requests, again.ahead) == (batch.requests, False)


def test_who_leaves_what_was_handed_ahead_is_run_all_the_same() -> None:
    batcher = busy()
    batch = behind(batcher)
    assert batcher.withdraw(batch.requests[0]) is False


def test_a_worker_that_loads_gives_back_what_it_was_handed() -> None:
    batcher = busy(2)
    offer(batcher, *(ask() for _ in range(8)))
    batcher.step(0.09)
    for number in range(2):
        finish(batcher, worker(number), Result([b"1"] * 4), SECONDS)
    batcher.step(SECONDS)
    offer(batcher, *(ask(SECONDS) for _ in range(8)))
    assert handed(batcher.step(0.19)) == [4, 4]
    batcher.worker_loading(FIRST, 0.2, None)
    assert batcher.fleet.workers[FIRST].ahead is None


def test_the_lane_whose_turn_it_is_comes_first() -> None:
    batcher = busy(rules=replace(GREEDY, tiers=TierRules(strict=True)))
    offer(batcher, *(ask(parameters=b"1", tier=2) for _ in range(4)))
    offer(batcher, *(ask(parameters=b"2", tier=1) for _ in range(4)))
    ((_, batch),) = batcher.step(0.09).ahead
    assert batch.parameters == b"2"


def test_a_lane_that_is_forgotten_meanwhile_does_no_harm() -> None:
    batcher = busy(rules=replace(GREEDY, max_lanes=1))
    batch = behind(batcher)
    offer(batcher, ask(0.09, parameters=b"1"))
    assert list(batcher.lanes) == [(b"1", 0)]
    finish(batcher, FIRST, Result([b"1"] * 4), SECONDS)
    assert batcher.step(SECONDS).dispatches == [(FIRST, batch)]


def test_a_worker_with_a_batch_ahead_is_expected_after_that() -> None:
    batcher = busy(2)
    offer(batcher, *(ask() for _ in range(8)))
    before = forecast(batcher, 0, 0.09)
    batcher.step(0.09)
    after = forecast(batcher, 0, 0.09)
    assert before is not None
    assert after is not None
    assert after.start == pytest.approx(2 * SECONDS)
    finish(batcher, worker(1), Result([b"1"] * 4), SECONDS)
    batcher.step(SECONDS)
    first = forecast(batcher, 0, SECONDS)
    assert first is not None
    assert first.start == pytest.approx(2 * SECONDS)
