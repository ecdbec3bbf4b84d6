"""The batcher of one model, event by event."""

import pytest
from core_kit import AWAY, REFUSED, answered, ask, batcher_with, finish, offer, outputs, sent, teach, worker

from penstock.config.sections import Retries
from penstock.core.buffer import TierRules
from penstock.core.delivery import RetryRules
from penstock.core.parts import DOUBT
from penstock.core.rules import BatchingRules
from penstock.types import Failure, GivenUp, Outcome, Reason, Result

GREEDY = BatchingRules(policy="greedy", max_batch=4)


def test_a_batch_is_sealed_only_when_a_worker_is_free_to_take_it() -> None:
    batcher = batcher_with(1, GREEDY)
    offer(batcher, ask())
    assert sent(batcher.step(0.0)) == [1]
    offer(batcher, *(ask(0.01) for _ in range(6)))
    assert sent(batcher.step(0.01)) == []
    _, batch = batcher.fleet.workers[worker(0)], batcher.fleet.workers[worker(0)].batch
    assert batch is not None
    finish(batcher, worker(0), outputs(batch), 0.1)
    assert sent(batcher.step(0.1)) == [4]


def test_outputs_go_by_position_with_what_is_known_of_the_execution() -> None:
    batcher = batcher_with(1, GREEDY)
    offer(batcher, *(ask(text=b'"%d"' % n) for n in range(3)))
    ((name, batch),) = batcher.step(0.0).dispatches
    finish(batcher, name, Result([b"A", b"B", b"C"], version="v1"), 0.1)
    replies = batcher.step(0.1).replies
    assert [(reply.request.input, reply.output) for reply in replies] == [
        (b'"0"', b"A"), (b'"1"', b"B"), (b'"2"', b"C"),
    ]  # fmt: skip
    execution = replies[0].execution
    assert execution is not None
    assert (execution.worker, execution.batch_id, execution.batch_size) == (name, batch.id, 3)
    assert (execution.started, execution.seconds, execution.version) == (0.0, 0.1, "v1")


def test_an_input_that_the_backend_says_has_failed_is_not_tried_again_and_the_others_are_answered() -> None:
    batcher = batcher_with(1, GREEDY)
    offer(batcher, ask(), ask(), ask())
    ((name, _),) = batcher.step(0.0).dispatches
    failure = Failure("BACKEND_FAILED", "not a number")
    finish(batcher, name, Result([b"A", b"", b"C"], failures={1: failure}), 0.1)
    effects = batcher.step(0.1)
    assert [(reply.outcome, reply.output, reply.failure) for reply in effects.replies] == [
        (Outcome.SUCCESS, b"A", None), (Outcome.FAILED, b"", failure), (Outcome.SUCCESS, b"C", None),
    ]  # fmt: skip
    failed = effects.replies[1]
    assert isinstance(failed, GivenUp)
    assert failed.executions == 1
    assert sent(effects) == []


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_count_is_a_failed_batch_never_a_wrong_answer(count: int) -> None:
    batcher = batcher_with(1, BatchingRules(policy="greedy", max_batch=2, retries=RetryRules(attempts=1)))
    offer(batcher, ask(), ask())
    ((name, _),) = batcher.step(0.0).dispatches
    finish(batcher, name, Result([b"?"] * count), 0.1)
    effects = batcher.step(0.1)
    assert effects.replies == []
    assert sent(effects) == [1]
    finish(batcher, name, Result([]), 0.2)
    effects = batcher.step(0.2)
    (reply,) = effects.replies
    assert reply.failure is not None
    assert reply.failure.message == "the backend gave 0 outputs for 1 inputs"


def test_only_what_has_the_same_parameters_shares_a_batch() -> None:
    batcher = batcher_with(3, GREEDY)
    offer(batcher, *(ask(parameters=parameters) for parameters in (b"1", b"2", b"1", b"2", b"1")))
    batches = [batch for _, batch in batcher.step(0.0).dispatches]
    assert sorted((batch.parameters, batch.size) for batch in batches) == [(b"1", 3), (b"2", 2)]


def test_parameters_per_item_are_those_of_the_members_even_after_a_split() -> None:
    rules = BatchingRules(policy="greedy", max_batch=3, per_item_parameters=True)
    batcher = batcher_with(2, rules)
    offer(batcher, ask(parameters=b'{"n":1}'), ask(), ask(parameters=b'{"n":3}'))
    ((name, batch),) = batcher.step(0.0).dispatches
    assert batch.parameters == b'[{"n":1},{},{"n":3}]'
    finish(batcher, name, REFUSED, 0.1)
    ((name, half),) = batcher.step(0.1).dispatches
    assert half.parameters == b'[{"n":1}]'
    finish(batcher, name, outputs(half), 0.2)
    ((_, rest),) = batcher.step(0.2).dispatches
    assert rest.parameters == b'[{},{"n":3}]'


def test_like_lengths_are_grouped_by_powers_of_two() -> None:
    batcher = batcher_with(3, BatchingRules(policy="greedy", group_lengths=True))
    offer(batcher, *(ask(length=length) for length in (5, 7, 100, 6, 127)))
    batches = [[request.length for request in batch.requests] for _, batch in batcher.step(0.0).dispatches]
    assert sorted(batches) == [[5, 7, 6], [100, 127]]


def test_a_batch_goes_as_soon_as_it_holds_as_much_cost_as_it_may() -> None:
    batcher = batcher_with(1, BatchingRules(policy="window", max_cost=10.0))
    offer(batcher, ask(cost=4.0), ask(cost=4.0))
    assert sent(batcher.step(0.0)) == []
    offer(batcher, ask(cost=4.0))
    ((_, batch),) = batcher.step(0.0).dispatches
    assert (batch.size, batch.reason) == (2, Reason.COST)


def test_what_is_never_sent_is_told_which_setting_ended_its_wait() -> None:
    batcher = batcher_with(0, GREEDY)
    queued, late = ask(expires=1.0, deadline=9.0), ask(expires=3.0, deadline=2.0)
    own = ask(expires=4.0, deadline=4.0)
    offer(batcher, queued, late, own)
    told = {}
    for now in (1.1, 2.1, 4.1):
        for reply in batcher.step(now).replies:
            assert reply.failure is not None
            told[reply.request.key] = reply.failure.message
    assert "timeouts.queue" in told[queued.key]
    assert "timeouts.request" in told[late.key]
    assert "timeout_ms" in told[own.key]


def test_draining_sends_what_there_is() -> None:
    batcher = batcher_with(1, BatchingRules(policy="window"))
    offer(batcher, ask())
    batcher.drain()
    ((_, batch),) = batcher.step(0.0).dispatches
    assert batch.reason is Reason.DRAIN


def test_what_can_no_longer_make_its_deadline_is_answered_at_once_and_never_sent() -> None:
    batcher = batcher_with(1, GREEDY)
    teach(batcher, 0.1)
    batcher.parts.last_finish = 0.0
    hopeless, possible = ask(deadline=0.05), ask(deadline=0.2)
    offer(batcher, hopeless, possible)
    effects = batcher.step(0.0)
    assert answered(effects, Outcome.EXPIRED) == [hopeless]
    assert [batch.requests for _, batch in effects.dispatches] == [[possible]]


def test_the_guard_grows_with_the_spread_of_the_service_time() -> None:
    batcher = batcher_with(1, GREEDY)
    for n in range(100):
        batcher.curve.observe(1, 0.09 if n % 2 else 0.11)
    batcher.parts.last_finish = 0.0
    offer(batcher, ask(deadline=0.12), ask(deadline=0.12))
    assert len(batcher.step(0.0).replies) == 2
    offer(batcher, ask(deadline=0.13), ask(deadline=0.13))
    assert len(batcher.step(0.0).dispatches) == 1


def test_where_workers_are_idle_a_request_goes_without_a_guard() -> None:
    batcher = batcher_with(2, GREEDY)
    for n in range(100):
        batcher.curve.observe(1, 0.09 if n % 2 else 0.11)
    batcher.parts.last_finish = 0.0
    offer(batcher, ask(deadline=0.12))
    assert len(batcher.step(0.0).dispatches) == 1


def test_a_wake_up_is_set_for_the_last_moment_even_while_no_worker_is_there() -> None:
    batcher = batcher_with(0, GREEDY)
    offer(batcher, ask(expires=2.0, deadline=4.0))
    wake = batcher.step(0.0).wake
    assert wake == pytest.approx(2.001)
    assert wake is not None
    assert len(batcher.step(wake).replies) == 1


def test_with_nothing_to_do_there_is_no_wake_up() -> None:
    batcher = batcher_with(1, GREEDY)
    assert batcher.step(0.0).wake is None


def test_one_slow_batch_does_not_shut_everybody_out_for_ever() -> None:
    """All deadlines look hopeless after it; once nothing has run for a while one request goes to find out."""
    batcher = batcher_with(2, GREEDY)
    offer(batcher, ask(deadline=9.0))
    ((name, batch),) = batcher.step(0.0).dispatches
    finish(batcher, name, outputs(batch), 2.0)  # the first batch of a cold GPU
    batcher.step(2.0)
    offer(batcher, ask(2.1, deadline=1.0))
    assert len(answered(batcher.step(2.1), Outcome.EXPIRED)) == 1
    later = 2.0 + DOUBT + 0.01
    assert batcher.parts.in_doubt(later)
    offer(batcher, ask(later, deadline=1.0), ask(later, deadline=1.0, parameters=b"other"))
    effects = batcher.step(later)
    assert sent(effects) == [1]
    assert len(answered(effects, Outcome.EXPIRED)) == 1, "one batch is enough to find out"
    assert not batcher.parts.in_doubt(later)
    ((name, batch),) = effects.dispatches
    for _ in range(20):
        finish(batcher, name, outputs(batch), later + 0.1)
        offer(batcher, ask(later + 0.1, deadline=3.0))
        ((name, batch),) = batcher.step(later + 0.1).dispatches
        later += 0.1
    assert batcher.curve(1) < 0.5


def test_who_leaves_before_dispatch_costs_nothing() -> None:
    batcher = batcher_with(0, GREEDY)
    request = ask()
    offer(batcher, request)
    assert batcher.withdraw(request)
    assert not batcher.withdraw(request)
    batcher.worker_ready(worker(0))
    assert sent(batcher.step(0.0)) == []


def test_who_leaves_before_a_retry_is_not_retried() -> None:
    batcher = batcher_with(2, GREEDY)
    leaves, stays = ask(), ask()
    offer(batcher, leaves, stays)
    ((name, _),) = batcher.step(0.0).dispatches
    assert not batcher.withdraw(leaves)  # on a worker
    finish(batcher, name, AWAY, 0.1)
    assert batcher.withdraw(leaves)
    wake = batcher.step(0.1).wake
    assert wake is not None
    ((_, batch),) = batcher.step(wake).dispatches
    assert batch.requests == [stays]


def test_a_lost_worker_s_batch_is_retried_and_its_late_word_is_ignored() -> None:
    batcher = batcher_with(2, GREEDY)
    offer(batcher, ask())
    ((name, batch),) = batcher.step(0.0).dispatches
    batcher.worker_gone(name, 0.1)
    wake = batcher.step(0.1).wake
    assert wake is not None
    ((other, retry),) = batcher.step(wake).dispatches
    assert other != name
    assert retry.requests == batch.requests
    finish(batcher, name, Result([b"late"]), 0.2)
    assert batcher.step(0.2).replies == []


def test_a_batch_held_up_on_its_way_does_not_pass_for_a_slow_worker() -> None:
    batcher = batcher_with(1, GREEDY)
    for arrival in (0.0, 6.0, 12.0):
        offer(batcher, ask(arrival))
        ((_, batch),) = batcher.step(arrival).dispatches
        batcher.finished(worker(0), batch.id, Result(delivered=1, held_up=5.0), arrival + 5.01)
        (reply,) = batcher.step(arrival + 5.01).replies
        assert reply.execution is not None
        assert reply.execution.seconds == pytest.approx(0.01)
        batcher.worker_ready(worker(0))
    assert batcher.curve(1) == pytest.approx(0.01)


def test_a_removed_worker_leaves_nothing_behind_but_its_requests() -> None:
    batcher = batcher_with(1, GREEDY)
    offer(batcher, ask())
    ((name, _),) = batcher.step(0.0).dispatches
    batcher.worker_removed(name, 0.1)
    finish(batcher, name, Result([b"late"]), 0.1)
    assert not batcher.fleet.workers
    assert batcher.waiting == 1


def test_lanes_are_bounded_and_empty_ones_make_room() -> None:
    batcher = batcher_with(1, BatchingRules(policy="greedy", max_lanes=2))
    offer(batcher, ask(parameters=b"1"), ask(parameters=b"2"))
    assert batcher.has_room_for(ask(parameters=b"1"))
    assert not batcher.has_room_for(ask(parameters=b"3"))
    ((name, batch),) = batcher.step(0.0).dispatches
    third = ask(parameters=b"3")
    assert batcher.has_room_for(third)
    offer(batcher, third)
    assert len(batcher.lanes) == 2
    assert (batch.parameters, 0) not in batcher.lanes
    finish(batcher, name, outputs(batch), 0.1)  # its lane is gone, and nothing breaks
    assert len(batcher.step(0.1).replies) == 1
    offer(batcher, ask(parameters=b"4"), ask(parameters=b"5"))  # without asking: accepted all the same
    assert batcher.depth.total == 3


def test_the_rate_is_that_of_all_lanes() -> None:
    batcher = batcher_with(0, GREEDY)
    for n in range(1000):
        offer(batcher, ask(n / 1000, parameters=b"12"[n % 2 : n % 2 + 1]))
    assert batcher.rate(1.0) == pytest.approx(1000.0, rel=0.05)


def test_under_strict_tiers_the_lane_with_the_best_tier_goes_first() -> None:
    batcher = batcher_with(1, BatchingRules(policy="greedy", tiers=TierRules(strict=True)))
    offer(
        batcher, ask(tier=2, parameters=b"free", deadline=1.0), ask(tier=0, parameters=b"best", deadline=5.0)
    )
    ((_, batch),) = batcher.step(0.0).dispatches
    assert batch.parameters == b"best"


def test_under_weighted_tiers_the_lane_whose_time_runs_out_first_goes_first() -> None:
    batcher = batcher_with(1, GREEDY)
    offer(
        batcher, ask(tier=0, parameters=b"later", deadline=5.0), ask(tier=2, parameters=b"soon", deadline=1.0)
    )
    ((_, batch),) = batcher.step(0.0).dispatches
    assert batch.parameters == b"soon"


def test_a_lane_that_has_gone_quiet_for_an_hour_is_still_decided_on() -> None:
    """Its measured rate is nought by then, and so would be its share of the workers."""
    batcher = batcher_with(0, BatchingRules(policy="paced", max_batch=8))
    teach(batcher, 0.05)
    for size in (1, 8):
        batcher.curve.observe(size, 0.01 * size)
    offer(batcher, ask(0.0, expires=1e4, deadline=1e4, parameters=b"old"))
    for n in range(50):
        offer(batcher, ask(3600.0 + n / 100, expires=1e4, deadline=1e4, parameters=b"new"))
    batcher.worker_ready(worker(0))
    batcher.worker_ready(worker(1))
    assert len(batcher.step(3600.5).dispatches) == 2


def test_what_the_rules_say_of_the_breaker_is_what_the_configuration_says() -> None:
    assert BatchingRules().breaker_failures == Retries().breaker_failures
    assert BatchingRules().breaker_cooldown == Retries().breaker_cooldown


def test_nobody_is_given_up_for_what_a_size_might_take_that_was_never_seen() -> None:
    """A batcher that has just begun inherits the queue of one that died: far more than it has ever sent at once."""
    batcher = batcher_with(1, BatchingRules(policy="greedy"))
    for size, seconds in ((3, 0.2), (4, 0.26)):
        batcher.curve.observe(size, seconds)
    batcher.parts.last_finish = 0.0
    offer(batcher, *(ask(0.1, expires=3.0, deadline=3.0) for _ in range(150)))
    effects = batcher.step(0.1)
    assert effects.replies == []
    assert sent(effects) == [64]
    assert batcher.step(0.1).replies == []
