"""Who is let in."""

import pytest
from core_kit import ask, batcher_with, finish, offer, outputs, sent, teach, worker
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.admission import Admission
from penstock.core.batcher import Batcher
from penstock.core.buffer import TierRules
from penstock.core.capacity import CapacityRules
from penstock.core.forecast import FEW_LANES, backlog_seconds, expected_wait, forecast, in_turn
from penstock.core.queued import Queued
from penstock.core.refusal import AdmissionRules, refusal, refusal_of_more
from penstock.core.rules import BatchingRules
from penstock.errors import Overloaded, Unacceptable
from penstock.types import Seconds

RULES = AdmissionRules()
TOO_LONG = "the queue is too long for its deadline"


def busy(workers: int = 2, *, tiers: TierRules | None = None, seconds: Seconds = 0.1) -> Batcher:
    """All workers started a full batch at time nought, and are known to take so long."""
    batcher = batcher_with(workers, BatchingRules(policy="greedy", max_batch=10, tiers=tiers or TierRules()))
    offer(batcher, *(ask(deadline=50.0) for _ in range(10 * workers)))
    assert sent(batcher.step(0.0)) == [10] * workers
    teach(batcher, seconds)
    return batcher


def why(batcher: Batcher, request: Queued, now: Seconds = 0.0, rules: AdmissionRules = RULES) -> str:
    refused = refusal(batcher, rules, request, now)
    return "" if refused is None else refused.message


def test_the_forecast_counts_the_batches_ahead() -> None:
    batcher = busy()
    expected = forecast(batcher, 0, 0.0)
    assert expected is not None
    assert expected.start == pytest.approx(0.1)
    assert 0.1 <= expected.seconds <= 0.105  # with its guard
    assert expected.drain_rate == pytest.approx(200.0)
    offer(batcher, *(ask() for _ in range(25)))
    expected = forecast(batcher, 0, 0.0)
    assert expected is not None
    assert expected.start == pytest.approx(0.1 + 2 * 0.05)


def test_an_idle_worker_takes_it_now() -> None:
    batcher = batcher_with(1)
    expected = forecast(batcher, 0, 5.0)
    assert expected is not None
    assert (expected.start, expected.drain_rate) == (5.0, float("inf"))


def test_what_would_end_past_its_deadline_is_refused_and_the_rest_is_let_in() -> None:
    batcher = busy()
    offer(batcher, *(ask() for _ in range(20)))  # two batches ahead: starts at 0.2, ends at 0.3
    assert why(batcher, ask(expires=9.0, deadline=0.32)) == ""
    assert why(batcher, ask(expires=9.0, deadline=0.31)) == TOO_LONG, (
        "a tenth of its time is for what nobody foresees"
    )
    assert why(batcher, ask(expires=9.0, deadline=0.29)) == TOO_LONG
    assert why(batcher, ask(expires=0.19, deadline=9.0)) == TOO_LONG


def test_a_refusal_for_want_of_time_says_how_much_was_needed_and_how_much_there_was() -> None:
    batcher = busy()
    offer(batcher, *(ask() for _ in range(20)))  # two batches ahead: starts at 0.2
    refused = refusal(batcher, RULES, ask(expires=0.15, deadline=9.0), 0.0)
    assert refused is not None
    assert refused.needed == pytest.approx(0.2)
    assert refused.had == 0.15
    hopeless = refusal(batcher, RULES, ask(expires=0.06, deadline=0.06), 0.01)
    assert hopeless is not None
    assert hopeless.needed == pytest.approx(0.1)
    assert hopeless.had == pytest.approx(0.05)
    full = refusal(batcher, AdmissionRules(max_queue=1), ask(expires=9.0, deadline=9.0), 0.0)
    assert full is not None
    assert full.needed is full.had is None


def test_a_deadline_shorter_than_one_batch_is_no_matter_of_the_queue() -> None:
    batcher = busy(seconds=0.1)
    own = ask(expires=0.01, deadline=0.01)
    refused = refusal(batcher, RULES, own, 0.0)
    assert refused is not None
    assert (refused.status, refused.code) == (504, "DEADLINE_EXCEEDED")
    assert refused.message == "one batch of this model takes about 100 ms; timeout_ms was 10"
    usual = ask(expires=0.02, deadline=0.05)
    assert why(batcher, usual) == "one batch of this model takes about 100 ms; timeouts.request is 0.05 s"
    assert why(batcher, ask(expires=0.11, deadline=0.11)) == TOO_LONG, "an idle server could answer it"


def test_a_knee_makes_batches_that_are_expected_smaller() -> None:
    batcher = busy()
    for size in (1, 5, 10) * 30:
        batcher.curve.observe(size, 0.1 * max(1, size / 5))
    expected = forecast(batcher, 0, 0.0)
    assert expected is not None
    assert batcher.curve.best_size == 5
    assert expected.seconds == pytest.approx(0.1, rel=0.5)


@settings(deadline=None, derandomize=True, max_examples=50)
@given(ahead=st.integers(0, 200), patience=st.floats(0.15, 1.0), workers=st.integers(1, 4))
def test_retry_after_is_true(ahead: int, patience: float, workers: int) -> None:
    """Whoever waits for as long as it says, while nobody else comes, is let in."""
    batcher = busy(workers)
    offer(batcher, *(ask(deadline=50.0) for _ in range(ahead)))
    refused = refusal(batcher, RULES, ask(expires=patience, deadline=patience), 0.0)
    if refused is None:
        return
    assert isinstance(refused, Overloaded)
    assert refused.retry_after is not None
    now = 0.0
    while now + 0.1 <= refused.retry_after + 1e-9:
        now += 0.1
        for number in range(workers):
            batch = batcher.fleet.workers[worker(number)].batch
            if batch is not None:
                finish(batcher, worker(number), outputs(batch), now)
        batcher.step(now)
    later = refused.retry_after + 1e-6
    assert why(batcher, ask(later, expires=patience, deadline=patience), later) == ""


@settings(deadline=None, derandomize=True, max_examples=100)
@given(
    knee=st.integers(1, 10),
    waiting=st.lists(st.integers(0, 2), max_size=80),
    tier=st.integers(0, 2),
    strict=st.booleans(),
    patience=st.floats(0.05, 2.0),
    now=st.sampled_from([0.0, 0.05, 0.3]),
)
def test_nobody_is_let_in_who_would_be_late_by_the_forecast(
    knee: int, waiting: list[int], tier: int, strict: bool, patience: float, now: float
) -> None:
    batcher = busy(tiers=TierRules(strict=strict))
    for size in (1, knee, 10) * 10:
        batcher.curve.observe(size, 0.1 * max(1, size / knee))
    offer(batcher, *(ask(tier=rank) for rank in waiting))
    expected = forecast(batcher, tier, now)
    assert expected is not None
    if why(batcher, ask(now, tier=tier, expires=patience, deadline=patience), now) == "":
        assert expected.start + expected.seconds <= now + patience + 1e-9


def test_strict_tiers_count_only_their_own_and_better_ones() -> None:
    batcher = busy(tiers=TierRules(strict=True))
    offer(batcher, *(ask(tier=1) for _ in range(40)))
    starts = [expected.start for tier in range(3) if (expected := forecast(batcher, tier, 0.0))]
    assert starts == pytest.approx([0.1, 0.3, 0.3])


def test_weighted_tiers_count_their_own_stretched_by_their_share() -> None:
    batcher = busy(tiers=TierRules(weights=(3.0, 1.0, 1.0)))
    offer(batcher, *(ask(tier=0) for _ in range(60)), *(ask(tier=1) for _ in range(20)))
    starts = [expected.start for tier in range(3) if (expected := forecast(batcher, tier, 0.0))]
    # Tier 0 gets 3/4: 60 are like 80. Tier 1 gets 1/4: 20 are like 80, and no more than wait in all. Tier 2 is new.
    assert starts == pytest.approx([0.1 + 8 * 0.05, 0.1 + 8 * 0.05, 0.1])


def test_what_costs_more_than_a_batch_may_is_refused_at_the_door() -> None:
    batcher = batcher_with(1, BatchingRules(max_cost=100.0))
    refused = refusal(batcher, RULES, ask(cost=101.0), 0.0)
    assert isinstance(refused, Unacceptable)
    assert refused.message == "this input costs 101, and max_cost of the model is 100: make it shorter"
    assert why(batcher, ask(cost=100.0)) == ""


def test_without_any_worker_nobody_is_let_in() -> None:
    batcher = batcher_with(0)
    refused = refusal(batcher, RULES, ask(), 0.0)
    assert isinstance(refused, Overloaded)
    assert refused.retry_after == 1.0


def test_a_worker_that_said_when_it_is_back_is_counted_on() -> None:
    batcher = batcher_with(1)
    batcher.worker_gone(worker(0), 0.0, back_at=0.5)
    assert why(batcher, ask(expires=0.6, deadline=0.6)) == ""
    assert why(batcher, ask(expires=0.4, deadline=0.6)) != ""


def test_the_queue_is_bounded_in_number_and_in_bytes_and_says_how_long_it_takes_to_drain() -> None:
    batcher = busy()
    offer(batcher, *(ask(text=b"0123456789") for _ in range(20)))
    assert why(batcher, ask(), rules=AdmissionRules(max_queue=23)) == ""
    assert why(batcher, ask(tenant="other"), rules=AdmissionRules(max_queue=21)) == ""
    full = refusal(batcher, AdmissionRules(max_queue=20), ask(), 0.0)
    assert isinstance(full, Overloaded)
    assert full.message == "the queue is full: limits.max_queue is 20"
    assert full.retry_after == pytest.approx(20 / 200.0)
    assert why(batcher, ask(text=b"1234"), rules=AdmissionRules(max_queue_bytes=203)) == (
        "the queue is full: limits.max_queue_bytes is 203"
    )
    assert why(batcher, ask(text=b"123"), rules=AdmissionRules(max_queue_bytes=203)) == ""


def test_too_many_sets_of_parameters_are_refused() -> None:
    batcher = batcher_with(0, BatchingRules(max_lanes=1))
    batcher.worker_gone(worker(0), 0.0, back_at=0.1)
    offer(batcher, ask(parameters=b"1"))
    assert why(batcher, ask(parameters=b"1")) == ""
    assert (
        why(batcher, ask(parameters=b"2")) == "too many sets of parameters are waiting: limits.max_lanes is 1"
    )


def test_a_forecast_that_nothing_has_tested_for_a_while_refuses_nobody() -> None:
    batcher = busy(1, seconds=2.0)
    batch = batcher.fleet.workers[worker(0)].batch
    assert batch is not None
    finish(batcher, worker(0), outputs(batch), 2.0)
    batcher.step(2.0)
    assert why(batcher, ask(2.1, deadline=0.5), 2.1).startswith("one batch of this model takes about 2000 ms")
    assert why(batcher, ask(3.1, deadline=0.5), 3.1) == ""


def test_a_tenant_with_nothing_waiting_is_not_refused_for_what_another_has_waiting() -> None:
    batcher = busy()
    offer(batcher, *(ask(tenant="burst") for _ in range(1000)))
    assert why(batcher, ask(tenant="burst", expires=2.0, deadline=4.0)) == TOO_LONG
    assert why(batcher, ask(tenant="trickle", expires=2.0, deadline=4.0)) == ""
    offer(batcher, *(ask(tenant="trickle") for _ in range(300)))
    assert why(batcher, ask(tenant="trickle", expires=2.0, deadline=4.0)) == TOO_LONG, (
        "two take turns: its own 300 take as long as 600 do"
    )


def test_tenants_take_turns_between_lanes_too() -> None:
    batcher = busy()
    offer(batcher, *(ask(tenant="burst", parameters=b"1") for _ in range(1000)))
    new = ask(tenant="trickle", expires=2.0, deadline=4.0)
    assert in_turn(batcher, new) == 1
    assert why(batcher, new) == ""
    offer(batcher, ask(tenant="trickle"))
    assert why(batcher, new) == ""
    offer(batcher, *(ask(tenant="trickle", parameters=b"%d" % (2 + n % 3)) for n in range(300)))
    assert why(batcher, new) == TOO_LONG, "its own count, in whatever lane they are"


def test_where_there_are_many_lanes_what_waits_in_others_goes_before_it() -> None:
    batcher = busy()
    offer(batcher, *(ask(tenant="burst", parameters=b"%d" % (n % FEW_LANES)) for n in range(1000)))
    assert in_turn(batcher, ask(tenant="burst", parameters=b"other")) == 1000
    offer(batcher, ask(tenant="trickle"))
    assert in_turn(batcher, ask(tenant="trickle")) == 1001
    assert in_turn(batcher, ask(tenant="trickle", parameters=b"other")) == 1001


def test_a_cheap_request_does_not_wait_for_as_many_as_a_dear_one() -> None:
    batcher = busy()
    offer(batcher, *(ask(tenant=str(number % 20), cost=10.0) for number in range(400)))
    assert in_turn(batcher, ask(tenant="cheap", cost=1.0)) == pytest.approx(2.0)
    assert in_turn(batcher, ask(tenant="dear", cost=100.0)) == pytest.approx(200.0)
    free = busy()
    offer(free, *(ask(tenant=str(number % 20), cost=0.0) for number in range(400)))
    assert in_turn(free, ask(tenant="new", cost=0.0)) == pytest.approx(20.0)


def test_those_who_are_overtaken_wait_the_longer_the_further_back_they_stand() -> None:
    batcher = busy()
    offer(batcher, *(ask(tenant="burst") for _ in range(200)))  # it would be sent after 1.1 s
    last, first = (
        ask(tenant="burst", expires=1.3, deadline=4.0),
        ask(tenant="new", expires=0.15, deadline=4.0),
    )
    assert refusal(batcher, RULES, last, 0.0) is None
    assert refusal(batcher, RULES, last, 0.0, 0.2) is not None  # 1.35 s
    assert refusal(batcher, RULES, first, 0.0, 0.9) is None


@pytest.mark.parametrize("rules", [AdmissionRules(max_queue=200), AdmissionRules(max_queue_bytes=600)])
def test_the_last_tenth_of_the_queue_is_for_tenants_with_less_than_their_share(rules: AdmissionRules) -> None:
    batcher = busy()
    while not (full := why(batcher, ask(tenant="burst"), rules=rules)):
        offer(batcher, ask(tenant="burst"))
    assert full.startswith("the queue is full: limits.max_queue")
    assert batcher.depth.total == 180
    for number in range(20):
        assert why(batcher, ask(tenant=f"trickle {number}", tier=number % 3), rules=rules) == ""
        offer(batcher, ask(tenant=f"trickle {number}", tier=number % 3))
    assert why(batcher, ask(tenant="one more"), rules=rules) == full


@settings(deadline=None, derandomize=True, max_examples=200)
@given(waiting=st.lists(st.integers(0, 5), max_size=60), served=st.integers(0, 30), tenant=st.integers(0, 6))
def test_no_more_go_before_it_than_the_forecast_counts_but_for_where_the_others_are_in_their_turns(
    waiting: list[int], served: int, tenant: int
) -> None:
    batcher = batcher_with(1, BatchingRules(max_batch=1, policy="greedy"))
    offer(batcher, *(ask(tenant=str(name)) for name in waiting))
    buffer = next(iter(batcher.lanes.values())).buffer if waiting else None
    if buffer is None:
        assert in_turn(batcher, ask(tenant=str(tenant))) == 0.0
        return
    buffer.take(min(served, len(waiting) - 1) or 1, None, 0.0)
    request = ask(tenant=str(tenant))
    own = [name for name in waiting if name == tenant]
    expected = in_turn(batcher, request)
    assert expected <= batcher.depth.by_tier[0]
    batcher.offer(request, 0.0)
    before = 0
    while buffer.take(1, None, 0.0) != [request]:
        before += 1
    assert before <= expected + (len(set(waiting)) if own else 0)


def test_the_backlog_is_what_the_lowest_tier_would_wait_and_a_second_where_nobody_can_say() -> None:
    batcher = batcher_with(0)
    assert backlog_seconds(batcher, 0.0) == 1.0
    batcher.worker_ready(worker(0))
    teach(batcher, 0.5)
    expected = forecast(batcher, 2, 0.0)
    assert expected is not None
    assert backlog_seconds(batcher, 0.0) == expected.start + expected.seconds


@settings(deadline=None)
@given(
    others=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 1)), max_size=60),
    number=st.integers(1, 60),
    patience=st.floats(0.2, 2.0),
    max_queue=st.integers(10, 100),
    tier=st.integers(0, 1),
    workers=st.integers(1, 3),
    grouped=st.booleans(),
)
def test_what_is_refused_of_many_at_once_is_refused_of_one_after_the_other_too(
    others: list[tuple[str, int]],
    number: int,
    patience: float,
    max_queue: int,
    tier: int,
    workers: int,
    grouped: bool,
) -> None:
    batcher = busy(workers, tiers=TierRules(weights=(3.0, 1.0)))
    rules = AdmissionRules(max_queue=max_queue)
    for tenant, rank in others:
        offer(batcher, ask(tenant=tenant, tier=rank, expires=50.0, deadline=50.0))

    def one(index: int) -> Queued:
        parameters = b"{}" if grouped and index % 2 else b""
        return ask(tenant="a", tier=tier, expires=patience, deadline=2 * patience, parameters=parameters)

    first = one(0)
    if refusal(batcher, rules, first, 0.0) is not None:
        return
    offer(batcher, first)
    refused_at_once = refusal_of_more(batcher, rules, first, number, 0.0) is not None
    for index in range(1, number + 1):
        each = one(index)
        if refusal(batcher, rules, each, 0.0) is not None:
            return
        offer(batcher, each)
    assert not refused_at_once


def test_of_many_that_do_not_fit_the_first_look_says_so() -> None:
    batcher, rules = busy(), AdmissionRules(max_queue=100)
    first = ask(expires=9.0, deadline=9.0)
    offer(batcher, first)
    assert refusal_of_more(batcher, rules, first, 40, 0.0) is None
    full = refusal_of_more(batcher, rules, first, 99, 0.0)
    assert full is not None
    assert "limits.max_queue" in full.message
    hasty = ask(expires=0.3, deadline=0.5)
    offer(batcher, hasty)
    late = refusal_of_more(batcher, rules, hasty, 80, 0.0)
    assert late is not None
    assert late.message == TOO_LONG
    assert late.retry_after == pytest.approx(0.2, abs=0.1)


def test_of_many_whose_start_nobody_knows_only_the_room_is_looked_at() -> None:
    rules = AdmissionRules(max_queue=100)
    several_lanes, no_worker = busy(), batcher_with(0)
    offer(several_lanes, ask(parameters=b'{"a":1}', expires=9.0, deadline=9.0))
    for batcher in (several_lanes, no_worker):
        hasty = ask(expires=0.3, deadline=0.5)
        offer(batcher, hasty)
        assert refusal_of_more(batcher, rules, hasty, 50, 0.0) is None
        full = refusal_of_more(batcher, rules, hasty, 99, 0.0)
        assert full is not None
        assert "limits.max_queue" in full.message


@pytest.mark.parametrize("tier", [0, 1])
def test_admission_says_of_many_what_the_queue_says(tier: int) -> None:
    batcher = busy(tiers=TierRules(weights=(3.0, 1.0)))
    admission = Admission(batcher, AdmissionRules(max_queue=100), CapacityRules())
    first = ask(tier=tier, expires=9.0, deadline=9.0)
    assert admission.refusal(first, 0.0) is None
    offer(batcher, first)
    assert admission.refusal_of_more(first, 40, 0.0) is None
    assert isinstance(admission.refusal_of_more(first, 99, 0.0), Overloaded)


def test_the_expected_wait_is_that_until_a_worker_is_free_and_nobodys_without_one() -> None:
    batcher = busy()
    offer(batcher, *(ask() for _ in range(25)))
    assert expected_wait(batcher, 0.0) == pytest.approx(0.1 + 2 * 0.05)
    assert expected_wait(batcher_with(1), 5.0) == 0.0
    assert expected_wait(batcher_with(0), 0.0) is None
