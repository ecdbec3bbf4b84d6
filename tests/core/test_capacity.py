"""What the workers can do, and how much of it lower tiers may have."""

from copy import deepcopy

import pytest
from core_kit import ask, batcher_with, offer, outputs, teach, worker
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.admission import Admission
from penstock.core.batcher import Batcher
from penstock.core.buffer import TierRules
from penstock.core.capacity import CapacityRules, depth_limits, fleet_capacity, own_capacity
from penstock.core.refusal import AdmissionRules
from penstock.core.refusal import refusal as admission_refusal
from penstock.core.rules import BatchingRules
from penstock.core.tier_gate import IN_USE, TierGate, own_wait, tier_refusal
from penstock.errors import Overloaded, Refused, Unacceptable
from penstock.types import Request

BEST, MIDDLE, LOWEST = range(3)
RULES = CapacityRules()


def fleet_of(workers: int = 1, seconds: float = 0.1, size: int = 32, *, strict: bool = False) -> Batcher:
    """By default one worker of 100 ms × 32: 320 requests a second, at which the numbers are what they are."""
    batcher = batcher_with(workers, BatchingRules(max_batch=size, tiers=TierRules(strict=strict)))
    teach(batcher, seconds, size=size)
    return batcher


def waiting(batcher: Batcher, best: int = 0, middle: int = 0, lowest: int = 0) -> Batcher:
    for tier, count in enumerate((best, middle, lowest)):
        offer(batcher, *(ask(tier=tier) for _ in range(count)))
    return batcher


def refused(
    batcher: Batcher, tier: int, rules: CapacityRules = RULES, *, rate: float = 160.0
) -> Overloaded | None:
    """Of a tier that has had so many a second of late: by default half of the capacity, more than its own part."""
    return tier_refusal(batcher, rules, ask(tier=tier), rate / 320.0)


def retry_after(error: Overloaded | None) -> float:
    assert error is not None
    assert error.retry_after is not None
    return error.retry_after


def test_capacity_is_healthy_workers_times_what_they_have_shown() -> None:
    batcher = fleet_of(workers=4)
    assert own_capacity(batcher) == pytest.approx(1280.0)
    batcher.worker_removed(worker(0), 1.0)
    batcher.worker_gone(worker(1), 1.0)
    assert own_capacity(batcher) == pytest.approx(640.0)
    batcher.share = 0.5
    assert own_capacity(batcher) == pytest.approx(320.0)
    assert fleet_capacity(batcher) == pytest.approx(640.0)
    assert own_capacity(batcher_with(4)) == 0.0  # nothing has been seen yet


def test_the_depths_grow_and_shrink_with_capacity_and_always_hold_some_batches() -> None:
    assert depth_limits(fleet_of(), RULES) == pytest.approx((100.0, 500.0))
    batcher = fleet_of(workers=4)
    assert depth_limits(batcher, RULES) == pytest.approx((400.0, 2000.0))
    batcher.worker_removed(worker(0), 0.0)
    batcher.worker_removed(worker(1), 0.0)
    assert depth_limits(batcher, RULES) == pytest.approx((200.0, 1000.0))
    slow = fleet_of(seconds=2.0, size=8)  # 4 requests a second: 100 would be worth 1.25 of them
    assert depth_limits(slow, RULES) == pytest.approx((16.0, 32.0))


def test_at_the_warning_the_lowest_tier_is_refused_and_no_other() -> None:
    batcher = waiting(fleet_of(), lowest=99)
    assert refused(batcher, LOWEST) is None
    waiting(batcher, lowest=1)
    assert retry_after(refused(batcher, LOWEST)) == pytest.approx(1 / 320)
    assert refused(batcher, MIDDLE) is None
    waiting(batcher, lowest=63)
    assert retry_after(refused(batcher, LOWEST)) == pytest.approx(0.2)  # as long as 64 take


def test_at_the_critical_depth_only_the_best_is_let_in() -> None:
    batcher = waiting(fleet_of(), middle=499)
    assert refused(batcher, MIDDLE) is None
    waiting(batcher, lowest=1)
    assert retry_after(refused(batcher, MIDDLE)) == pytest.approx(1 / 320)
    assert retry_after(refused(batcher, LOWEST)) == pytest.approx(401 / 320)
    assert refused(batcher, BEST) is None


def test_without_tiers_in_use_nobody_is_refused_here() -> None:
    gate = TierGate(waiting(fleet_of(), lowest=5000), RULES)
    assert [gate.refusal(ask(tier=LOWEST), 0.1 * number) for number in range(100)] == [None] * 100


def test_while_nobody_is_healthy_or_nothing_is_known_the_forecast_has_the_say() -> None:
    assert refused(waiting(batcher_with(1), lowest=5000), LOWEST) is None
    batcher = waiting(fleet_of(), lowest=5000)
    batcher.worker_removed(worker(0), 0.0)
    assert refused(batcher, LOWEST) is None


def test_the_lowest_tier_has_its_share_of_the_capacity_while_better_ones_wait_and_all_of_it_otherwise() -> (
    None
):
    batcher = waiting(fleet_of(), best=32, lowest=20)  # more than one batch, with any other
    assert refused(batcher, LOWEST, rate=223.0) is None
    assert retry_after(refused(batcher, LOWEST, rate=225.0)) == pytest.approx(1 / 320)
    assert refused(batcher, MIDDLE, rate=225.0) is None
    assert refused(waiting(fleet_of(), best=31), LOWEST, rate=320.0) is None  # they are the next batch
    crowded = waiting(fleet_of(), middle=90)
    assert retry_after(refused(crowded, LOWEST, rate=224.1)) == pytest.approx(0.001)  # it is slowing down
    none = CapacityRules(lowest_share=0.0)
    assert retry_after(refused(crowded, LOWEST, none, rate=0.0)) == pytest.approx(59 / 320)


@pytest.mark.parametrize(("strict", "seconds"), [(False, 5.0 / 320), (True, 60.0 / 10 / 320)])
def test_a_tier_may_fill_its_part_of_the_queue_and_is_told_how_long_its_own_takes(
    strict: bool, seconds: float
) -> None:
    rules = CapacityRules(max_queue=100, queue_shares=(1.0, 0.6, 0.1))
    batcher = waiting(fleet_of(strict=strict), middle=50, lowest=8)
    assert refused(batcher, LOWEST, rules) is None
    assert refused(batcher, MIDDLE, rules) is None
    waiting(batcher, lowest=2)
    assert retry_after(refused(batcher, LOWEST, rules)) == pytest.approx(seconds)


def test_a_tier_that_has_filled_its_part_of_the_queue_is_refused_however_little_waits() -> None:
    gate = TierGate(waiting(fleet_of(), lowest=2), CapacityRules(max_queue=20, queue_shares=(1.0, 1.0, 0.1)))
    assert gate.refusal(ask(tier=BEST), 0.0) is None
    assert gate.refusal(ask(tier=MIDDLE), 0.0) is None
    assert gate.refusal(ask(tier=LOWEST), 0.0) is not None


@pytest.mark.parametrize("strict", [False, True])
def test_a_tier_without_any_part_of_the_queue_is_never_let_in(strict: bool) -> None:
    rules = CapacityRules(queue_shares=(1.0, 1.0, 0.0))
    assert retry_after(refused(fleet_of(strict=strict), LOWEST, rules)) == pytest.approx(1 / 320)


def test_tiers_are_in_use_once_two_have_been_seen_and_until_a_minute_later() -> None:
    batcher = waiting(fleet_of(), lowest=200)
    gate = TierGate(batcher, RULES)
    assert gate.refusal(ask(tier=LOWEST), 0.0) is None
    assert gate.refusal(ask(tier=BEST), 1.0) is None
    gate.let_in(LOWEST, 100, 2.0)  # more than its part
    assert gate.refusal(ask(tier=LOWEST), 2.0) is not None
    assert gate.refusal(ask(tier=LOWEST), 2.0 + IN_USE) is None
    assert gate.refusal(ask(tier=MIDDLE), 100.0) is None
    gate.let_in(LOWEST, 100, 100.0)
    assert gate.refusal(ask(tier=LOWEST), 100.0) is not None


def test_what_is_let_in_of_the_lowest_tier_is_held_to_its_share_as_long_as_others_wait() -> None:
    batcher = waiting(fleet_of(), best=40)
    gate = TierGate(batcher, RULES)
    gate.refusal(ask(tier=BEST), 0.0)
    asked = [number / 640 for number in range(640 * 5)]  # twice the capacity, five seconds
    let_in = [now for now in asked if gate.refusal(ask(tier=LOWEST), now) is None]
    assert len([now for now in let_in if now >= 2.0]) / 3.0 == pytest.approx(224.0, rel=0.02)


def test_workers_that_are_slow_for_a_moment_do_not_make_what_was_let_in_before_too_much() -> None:
    batcher = waiting(fleet_of(), best=40)
    gate = TierGate(batcher, RULES)
    gate.refusal(ask(tier=BEST), 0.0)
    half = [number / 160 for number in range(160 * 3)]
    assert all(gate.refusal(ask(now, tier=LOWEST), now) is None for now in half)
    teach(batcher, 0.2, size=32, times=30)  # half as fast: what it has asked for is now all there is
    late = [3.0 + number / 160 for number in range(160 * 3)]
    let_in = [now for now in late if gate.refusal(ask(now, tier=LOWEST), now) is None]
    assert let_in[:16] == late[:16]
    assert len([now for now in let_in if now >= 5.0]) == pytest.approx(0.7 * 160, rel=0.05)


def test_half_of_the_workers_lost_is_half_of_the_share_within_two_seconds() -> None:
    batcher = waiting(fleet_of(workers=2), best=40)
    gate = TierGate(batcher, RULES)
    gate.refusal(ask(tier=BEST), 0.0)
    let_in = []
    for number in range(1280 * 6):
        now = number / 1280
        if number == 1280 * 3:
            batcher.worker_removed(worker(0), now)
        if gate.refusal(ask(tier=LOWEST), now) is None:
            let_in.append(now)
    assert len([now for now in let_in if 2.0 <= now < 3.0]) == pytest.approx(448, rel=0.03)
    assert len([now for now in let_in if 5.0 <= now < 6.0]) == pytest.approx(224, rel=0.03)


@given(
    tier=st.sampled_from([BEST, MIDDLE, LOWEST]),
    counts=st.tuples(*[st.integers(0, 200)] * 3),
    rate=st.floats(0.0, 1000.0),
    strict=st.booleans(),
    shares=st.sampled_from([(), (1.0, 0.5, 0.01)]),
)
def test_a_refusal_always_says_when_and_never_meets_the_best(
    tier: int, counts: tuple[int, int, int], rate: float, strict: bool, shares: tuple[float, ...]
) -> None:
    batcher = waiting(fleet_of(strict=strict), *counts)
    error = refused(batcher, tier, CapacityRules(max_queue=300, queue_shares=shares), rate=rate)
    if error is not None:
        assert tier != BEST
        assert 0.0 < retry_after(error) < 60.0


def test_while_one_of_the_best_would_wait_for_a_quarter_of_its_time_others_are_refused_until_it_would_not() -> (
    None
):
    batcher = waiting(fleet_of(), best=95)
    batcher.step(0.0)  # 32 of them are on the only worker until 0.1, and 63 wait
    gate = TierGate(batcher, RULES)
    gate.refusal(ask(tier=MIDDLE), 0.0)
    gate.refusal(ask(tier=BEST, expires=0.8), 0.0)  # it would be sent at 0.2, and has until 0.8
    assert gate.refusal(ask(tier=MIDDLE), 0.0) is None
    gate = TierGate(batcher, RULES)
    gate.refusal(ask(tier=MIDDLE), 0.0)
    gate.refusal(ask(tier=BEST, expires=0.6), 0.0)
    assert retry_after(gate.refusal(ask(tier=MIDDLE), 0.0)) == pytest.approx(0.05)
    assert gate.refusal(ask(tier=LOWEST), 0.02) is None  # of its own part
    gate.let_in(LOWEST, 100, 0.02)
    assert retry_after(gate.refusal(ask(tier=LOWEST), 0.02)) == pytest.approx(0.03)
    assert gate.refusal(ask(tier=BEST), 0.0) is None


def test_how_much_time_the_best_have_counts_without_their_batch_and_no_single_one_of_them_decides() -> None:
    batcher = waiting(fleet_of(), best=95)
    batcher.step(0.0)
    gate = TierGate(batcher, RULES)
    gate.refusal(ask(tier=MIDDLE), 0.0)
    for _ in range(100):
        gate.refusal(
            ask(tier=BEST, deadline=0.8), 0.0
        )  # of which the batch takes 0.1, and a little more to be sure
    assert retry_after(gate.refusal(ask(tier=MIDDLE), 0.0)) == pytest.approx(0.025625)
    gate.refusal(ask(tier=BEST, deadline=2.0), 0.0)
    gate.refusal(ask(tier=BEST, deadline=2.0), 0.0)
    assert gate.refusal(ask(tier=MIDDLE), 0.0) is None
    gate.refusal(ask(tier=BEST, deadline=0.11), 0.0)
    assert retry_after(gate.refusal(ask(tier=MIDDLE), 0.0)) < 0.02


def test_where_nobody_keeps_the_best_waiting_or_nobody_can_say_how_long_they_wait_no_one_is_refused_for_it() -> (
    None
):
    strict = waiting(fleet_of(strict=True), best=95)
    none_left = waiting(fleet_of(), best=95)
    none_left.worker_removed(worker(0), 0.0)
    for batcher in (strict, none_left, fleet_of(), waiting(fleet_of(), middle=40)):
        gate = TierGate(batcher, RULES)
        gate.refusal(ask(tier=MIDDLE), 0.0)
        gate.refusal(ask(tier=BEST, expires=0.1), 0.0)
        assert gate.refusal(ask(tier=MIDDLE), 0.0) is None


def test_the_door_asks_the_forecast_first_and_then_the_tiers() -> None:
    rules = BatchingRules(max_batch=32, max_cost=10.0)
    batcher = batcher_with(1, rules)
    teach(batcher, 0.1, size=32)
    admission = Admission(waiting(batcher, lowest=150), AdmissionRules(), RULES)
    assert isinstance(admission.refusal(ask(tier=LOWEST, cost=11.0), 0.0), Unacceptable)
    assert admission.refusal(ask(tier=BEST), 0.0) is None
    told = [admission.refusal(ask(tier=LOWEST), 0.0) for _ in range(40)]
    assert told[0] is None  # a thirteenth of a second's work is its own
    assert isinstance(told[-1], Overloaded)


def waits(batcher: Batcher, tier: int, better: float) -> float:
    return own_wait(batcher, tier, better, batcher.depth.by_tier[tier])


def test_who_is_not_let_in_is_counted_by_tier() -> None:
    batcher = batcher_with(1, BatchingRules(max_batch=32, max_cost=10.0))
    teach(batcher, 0.1, size=32)
    admission = Admission(waiting(batcher, lowest=150), AdmissionRules(), RULES)
    assert admission.refusal(ask(tier=BEST), 0.0) is None
    for tier in (LOWEST, MIDDLE, LOWEST):
        assert admission.refusal(ask(tier=tier, cost=11.0), 0.0) is not None
    assert batcher.refused == [0, 1, 2]


def test_the_wait_of_a_lower_tier_counts_those_of_better_ones_that_are_yet_to_come() -> None:
    batcher = waiting(fleet_of(), middle=65)  # two batches, and one more that goes with the next
    assert waits(batcher, MIDDLE, 0.0) == pytest.approx(64 / 320)
    assert waits(batcher, MIDDLE, 0.5) == pytest.approx(64 / 160)
    assert waits(batcher, MIDDLE, 1.0) == pytest.approx(64 / (320 * 4 / 12))  # its weight's part
    waiting(batcher, best=1, lowest=1)
    assert waits(batcher, MIDDLE, 0.5) == pytest.approx(64 / (160 * 4 / 5))  # the lowest has its weight
    assert waits(batcher, MIDDLE, 1.0) == pytest.approx(64 / (320 * 4 / 13))
    assert waits(batcher, LOWEST, 0.0) == 0.0
    assert waits(waiting(batcher_with(1), middle=65), MIDDLE, 0.0) == 0.0  # nobody knows
    strict = waiting(fleet_of(strict=True), middle=65, lowest=1)
    assert waits(strict, MIDDLE, 0.5) == pytest.approx(64 / 160)
    assert waits(strict, MIDDLE, 1.25) == pytest.approx(64 / (0.05 * 320))


def test_what_would_be_late_if_better_ones_go_on_coming_is_refused_and_told_when_it_would_not() -> None:
    batcher = waiting(fleet_of(strict=True), middle=65)
    gate = TierGate(batcher, RULES)
    for number in range(1600):  # 160 a second of the best, who do not wait
        gate.refusal(ask(0.00625 * number, tier=BEST), 0.00625 * number)
        gate.refusal(ask(0.00625 * number, tier=LOWEST, expires=0.0), 0.00625 * number)
    now = 10.0
    assert gate.refusal(ask(now, tier=MIDDLE, expires=0.6), now) is None
    late = retry_after(gate.refusal(ask(now, tier=MIDDLE, expires=0.3), now))
    assert late == pytest.approx(64 / 160 - (0.1 + 0.9 * 0.2), rel=0.05)


def let_in_for(
    gate: TierGate, seconds: float, tier: int, *, rate: float = 640.0, tenant: str = "", best: float = 0.0
) -> list[float]:
    """When one of this tier was let in, if so many ask and so many of the best are turned away, each second."""
    let_in, turned_away = [], 0.0
    for number in range(int(rate * seconds)):
        now = number / rate
        turned_away += best / rate
        while turned_away >= 1.0:
            gate.turned_away(now)
            turned_away -= 1.0
        if gate.refusal(ask(now, tier=tier, tenant=tenant), now) is None:
            let_in.append(now)
    return let_in


def per_second(let_in: list[float], since: float, until: float) -> float:
    return len([now for now in let_in if since <= now < until]) / (until - since)


@settings(deadline=None, derandomize=True, max_examples=20)
@given(tier=st.sampled_from([MIDDLE, LOWEST]), best=st.integers(0, 3000), middle=st.integers(500, 3000))
def test_however_long_the_queue_each_tier_is_let_in_at_its_weight_s_part_of_the_capacity(
    tier: int, best: int, middle: int
) -> None:
    gate = TierGate(waiting(fleet_of(), best=best, middle=middle), RULES)
    gate.refusal(ask(tier=BEST), 0.0)
    part = (8.0, 4.0, 1.0)[tier] / 13.0
    assert per_second(let_in_for(gate, 5.0, tier), 2.0, 5.0) == pytest.approx(320.0 * part, rel=0.1)


@pytest.mark.parametrize(("seconds", "size"), [(2.0, 1), (0.4, 1), (0.4, 4)])
def test_a_tier_s_part_is_the_same_where_few_are_served_a_second(seconds: float, size: int) -> None:
    batcher = fleet_of(seconds=seconds, size=size)
    gate = TierGate(waiting(batcher, middle=1000), RULES)
    gate.refusal(ask(tier=BEST), 0.0)
    part = own_capacity(batcher) / 13.0
    let_in = 0
    for number in range(2000):
        now = number / (20.0 * part)
        gate.refusal(ask(now, tier=BEST), now)  # both are in use
        let_in += gate.refusal(ask(now, tier=LOWEST), now) is None
    assert let_in == pytest.approx(100, rel=0.1)


def test_a_best_tier_in_a_hurry_leaves_the_lowest_its_part_and_those_between_nothing_while_it_fits() -> None:
    gate = TierGate(waiting(fleet_of(), best=300), RULES)
    gate.refusal(ask(tier=MIDDLE), 0.0)
    gate.refusal(ask(tier=BEST, expires=0.3), 0.0)
    assert per_second(let_in_for(gate, 5.0, LOWEST), 2.0, 5.0) == pytest.approx(320.0 / 13.0, rel=0.1)
    assert let_in_for(gate, 5.0, MIDDLE) == []


def test_a_best_tier_that_does_not_fit_leaves_those_between_as_much_as_the_lowest() -> None:
    gate = TierGate(waiting(fleet_of(), best=300), RULES)
    gate.refusal(ask(tier=MIDDLE), 0.0)
    gate.refusal(ask(tier=BEST, expires=0.3), 0.0)
    let_in = let_in_for(gate, 40.0, MIDDLE, best=640.0)
    assert per_second(let_in, 30.0, 40.0) == pytest.approx(320.0 / 13.0, rel=0.1)
    assert gate.kept_from(BEST, 40.0) == pytest.approx(1.0 / 13.0, rel=0.1)
    assert gate.kept_from(MIDDLE, 40.0) == 0.0


def test_under_strict_tiers_or_where_the_settings_say_so_the_lowest_tier_may_get_nothing() -> None:
    for batcher, rules in ((fleet_of(strict=True), RULES), (fleet_of(), CapacityRules(lowest_share=0.0))):
        gate = TierGate(waiting(batcher, best=1000), rules)
        gate.refusal(ask(tier=BEST), 0.0)
        assert let_in_for(gate, 2.0, LOWEST) == []


def test_a_tenant_that_has_had_little_of_its_tier_s_part_is_let_in_when_another_has_used_it_up() -> None:
    gate = TierGate(waiting(fleet_of(), best=1000), RULES)
    gate.refusal(ask(tier=BEST), 0.0)
    let_in_for(gate, 5.0, LOWEST, tenant="burst")
    told = [gate.refusal(ask(tier=LOWEST, tenant="burst"), 5.0) for _ in range(2)]
    assert told[-1] is not None
    assert gate.refusal(ask(tier=LOWEST, tenant="trickle"), 5.0) is None


def test_the_depths_count_what_is_ahead_of_the_tenant_itself() -> None:
    batcher = fleet_of()
    offer(batcher, *(ask(tier=LOWEST, tenant="burst") for _ in range(500)))
    rules, used = CapacityRules(), 1.0
    assert tier_refusal(batcher, rules, ask(tier=LOWEST, tenant="burst"), used) is not None
    assert tier_refusal(batcher, rules, ask(tier=LOWEST, tenant="trickle"), used) is None


def test_what_is_turned_away_before_anything_is_known_counts_for_nothing() -> None:
    gate = TierGate(batcher_with(1), RULES)
    gate.turned_away(0.0)
    assert gate._asked.rate(0.0) == 0.0


class Checked(Admission):
    """Looks closer at those as well whom it would have let in without."""

    __slots__ = ("quick",)

    def __init__(self, batcher: Batcher, admission: AdmissionRules, rules: CapacityRules = RULES) -> None:
        super().__init__(batcher, admission, rules)
        self.quick = 0

    def _look_closer(self, request: Request, now: float) -> Refused | None:
        self.quick -= 1
        return super()._look_closer(request, now)

    def refusal(self, request: Request, now: float) -> Refused | None:
        self.quick += 1
        before = self.quick
        refused = super().refusal(request, now)
        if self.quick == before:
            assert refused is None
            overtaken = self._bounds[request.tier].overtaken
            assert admission_refusal(self._batcher, self._rules, request, now, overtaken) is None
            assert self._gate_refusal(request, now) is None
        return refused

    def _gate_refusal(self, request: Request, now: float) -> Overloaded | None:
        """What the gate would have said, had it been told of all who came before; it does not notice."""
        gate, batcher, meters = self._gate, self._batcher, self._gate._meters
        if not request.tier or not gate.is_mixed(now) or batcher.waiting < batcher.curve.best_size:
            return None
        gate._meters = deepcopy(meters)
        for tier, bound in enumerate(self._bounds):
            gate._count(tier, bound.untold - (tier == request.tier), now)
        refused = gate._refusal(request, now)
        gate._meters = meters
        return refused


@settings(deadline=None, derandomize=True, max_examples=100)
@given(
    workers=st.integers(1, 3),
    seconds=st.sampled_from([0.001, 0.01, 0.1]),
    strict=st.booleans(),
    rules=st.sampled_from(
        [AdmissionRules(), AdmissionRules(max_queue=50), AdmissionRules(max_queue_bytes=200)]
    ),
    shares=st.sampled_from([(), (1.0, 0.5, 0.01)]),
    events=st.lists(
        st.tuples(
            st.sampled_from(["ask"] * 8 + ["end", "gone", "ready"]),
            st.integers(0, 2),
            st.sampled_from([0.0, 0.001, 0.01]),
            st.sampled_from([0.05, 0.3, 2.0, 30.0]),
            st.integers(1, 40),
            st.sampled_from(["burst", "burst", "trickle"]),
        ),
        min_size=10,
        max_size=60,
    ),
)
def test_without_a_closer_look_nobody_is_let_in_whom_one_would_have_refused(
    workers: int,
    seconds: float,
    strict: bool,
    rules: AdmissionRules,
    shares: tuple[float, ...],
    events: list[tuple[str, int, float, float, int, str]],
) -> None:
    batcher = fleet_of(workers, seconds, strict=strict)
    admission, now = Checked(batcher, rules, CapacityRules(max_queue=1000, queue_shares=shares)), 0.0
    for kind, number, gap, limit, times, tenant in events:
        now += gap
        name = worker(number % workers)
        if kind == "ask":
            for _ in range(times):
                request = ask(now, tier=number, tenant=tenant, expires=limit, deadline=limit)
                if admission.refusal(request, now) is None:
                    batcher.offer(request, now)
        elif kind == "end" and (batch := batcher.fleet.workers[name].batch) is not None:
            batcher.finished(name, batch.id, outputs(batch), now)
        elif kind == "gone":
            batcher.worker_gone(name, now)
        elif kind == "ready":
            batcher.worker_ready(name)
        batcher.step(now)


def test_those_in_a_hurry_leave_less_for_those_who_are_not() -> None:
    batcher = fleet_of()
    admission = Checked(batcher, AdmissionRules())
    admission.refusal(ask(tier=BEST), 0.0)
    waiting(batcher, best=40)
    for number in range(400):
        hurried = ask(0.0, tier=LOWEST, expires=0.5 if number % 2 else 30.0, deadline=30.0)
        admission.refusal(hurried, 0.0)  # each is checked


def test_one_close_look_is_enough_for_those_who_come_until_a_batch_ends() -> None:
    batcher = fleet_of()
    admission = Checked(batcher, AdmissionRules())
    for tier in (BEST, MIDDLE, LOWEST) * 30:
        request = ask(0.0, tier=tier, expires=30.0, deadline=30.0)
        assert admission.refusal(request, 0.0) is None
        batcher.offer(request, 0.0)
    assert admission.quick >= 80
