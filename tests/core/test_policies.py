"""When a batch goes, and how large, each policy by what is written of it."""

from math import ceil, exp

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from penstock.core.estimator import ServiceCurve
from penstock.core.policy import POLICIES, Send, View, Wait
from penstock.types import Reason


def curve_of(a: float, b: float = 0.0, limit: int = 32) -> ServiceCurve:
    curve = ServiceCurve(limit)
    for _ in range(3):
        for size in (1, 2, 4, 8, 16, limit):
            curve.observe(size, a + b * size)
    return curve


def view(**changed: object) -> View:
    """A steady load: 1,000 requests a second on 6 workers; a batch of up to 32 takes 100 ms. One request came just
    now."""
    usual = View(
        now=100.0, waiting=1, oldest=100.0, give_up=102.0, rate=1000.0, peak=1000.0, load=1000.0, workers=6.0,
        all_workers=6, idle=1, busy=5, last_dispatch=99.995, max_batch=32, max_wait=0.05,
        reserve=0, curve=curve_of(0.1), rising=1000.0,
    )  # fmt: skip
    if "rate" in changed:
        changed = {"rising": changed["rate"], **changed}
    return replace(usual, **changed)


def about(until: float) -> Wait:
    return Wait(pytest.approx(until, abs=1e-4))  # type: ignore[arg-type]


def decide(policy: str, **changed: object) -> Send | Wait:
    return POLICIES[policy].decide(view(**changed))


@settings(deadline=None, derandomize=True, max_examples=300)
@given(
    policy=st.sampled_from(sorted(POLICIES)),
    waiting=st.integers(1, 300),
    age=st.floats(0.0, 0.2),
    slack=st.floats(-0.01, 0.2),
    rate=st.floats(0.0, 1e5),
    more=st.floats(0.0, 1e5),
    peak=st.floats(0.0, 1e6),
    idle=st.integers(1, 3),
    others=st.floats(0.0, 1e4),
    workers=st.integers(1, 40),
    since=st.one_of(st.just(float("inf")), st.floats(0.0, 0.3)),
    reserve=st.integers(0, 2),
    curve=st.tuples(st.floats(0.0, 0.3), st.floats(0.0, 0.01)),
)
def test_every_policy_sends_in_time_or_says_when_to_ask_again(
    policy: str, waiting: int, age: float, slack: float, rate: float, more: float, peak: float,
    idle: int, others: float, workers: int, since: float, reserve: int, curve: tuple[float, float],
) -> None:  # fmt: skip
    seen = view(
        waiting=waiting, oldest=100.0 - age, give_up=100.0 + slack, rate=rate, peak=peak,
        rising=rate + more, load=rate + others,
        workers=max(0.01, workers * rate / (rate + others)) if others else workers, all_workers=workers,
        idle=idle, last_dispatch=100.0 - since, reserve=reserve, curve=curve_of(*curve),
    )  # fmt: skip
    decision = POLICIES[policy].decide(seen)
    if isinstance(decision, Send):
        assert 1 <= decision.size <= seen.max_batch
    else:
        longest = 0.1 if policy in ("ewma", "table") else seen.max_wait
        assert age < longest
        assert seen.now < decision.until <= min(seen.oldest + longest, seen.give_up)


def test_window_waits_from_the_first_request_or_until_full() -> None:
    assert decide("window") == Wait(100.05)
    assert decide("window", oldest=99.97, waiting=31) == about(100.02)
    assert decide("window", oldest=99.95) == Send(32, Reason.DUE)
    assert decide("window", waiting=32) == Send(32, Reason.FULL)


@pytest.mark.parametrize("policy", ["window", "ewma", "table", "paced"])
def test_nobody_waits_past_the_first_deadline(policy: str) -> None:
    assert decide(policy, give_up=100.003) == Wait(100.003)
    assert decide(policy, give_up=100.0) == Send(32, Reason.DEADLINE)


def test_greedy_sends_whatever_there_is() -> None:
    assert decide("greedy") == Send(32, Reason.IDLE)
    assert decide("greedy", waiting=40) == Send(32, Reason.FULL)


def test_ewma_waits_the_longer_the_more_would_join_between_5_and_100_ms_whatever_max_wait_is() -> None:
    assert decide("ewma", rate=0.0) == about(100.005)
    assert decide("ewma", rate=16.0) == about(100.005)  # a twentieth of a batch in 100 ms
    assert decide("ewma", rate=160.0) == about(100.050)
    assert decide("ewma", rate=320.0) == about(100.100)
    assert decide("ewma", rate=5000.0) == about(100.100)  # it is full before that
    assert decide("ewma", rate=160.0, oldest=99.95) == Send(32, Reason.DUE)
    assert decide("ewma", waiting=32) == Send(32, Reason.FULL)
    assert decide("ewma", rate=320.0, max_wait=0.0) == about(100.100)


@pytest.mark.parametrize(
    ("waiting", "load", "size", "wait"),
    [
        (9, 100.0, 16, 0.030),  # quiet: utilisation 0.05
        (10, 100.0, 32, 0.050),  # depth
        (9, 1000.0, 32, 0.050),  # utilisation 0.52
        (9, 1700.0, 64, 0.100),  # utilisation 0.89
        (101, 100.0, 64, 0.100),
    ],
)
def test_table_looks_size_and_wait_up(waiting: int, load: float, size: int, wait: float) -> None:
    curve = curve_of(0.1, limit=128)
    rate = load * 4  # 128 a batch: the same utilisations
    found = decide("table", waiting=waiting, load=rate, max_batch=128, idle=2, max_wait=0.01, curve=curve)
    if waiting >= size:
        assert found == Send(size, Reason.FULL)
    else:
        assert found == about(100.0 + wait)
        late = decide("table", waiting=waiting, load=rate, max_batch=128, oldest=99.8, curve=curve)
        assert late == Send(size, Reason.DUE)


def test_table_fills_batches_for_the_best_throughput_where_more_waits_than_its_rows_let_the_workers_take() -> (
    None
):
    curve = curve_of(0.1, limit=256)
    behind: dict[str, object] = {"load": 100.0, "max_batch": 256, "curve": curve}
    assert decide("table", waiting=128, idle=2, **behind) == Send(64, Reason.FULL)
    assert decide("table", waiting=129, idle=2, **behind) == Send(256, Reason.FULL)
    for size in (100, 128, 256) * 100:
        curve.observe(size, 0.001 * size)
    assert decide("table", waiting=129, **behind) == Send(curve.best_size, Reason.FULL)
    assert 64 < curve.best_size < 256  # a larger batch buys no throughput


def test_table_never_exceeds_the_model_s_own_limit() -> None:
    assert decide("table", waiting=9, load=10.0, max_batch=8, curve=curve_of(0.1, limit=8)) == Send(
        8, Reason.FULL
    )


def test_paced_sends_one_batch_every_s_over_g() -> None:
    assert decide("paced") == about(99.995 + 0.1 / 6)
    assert decide("paced", last_dispatch=99.9) == Send(32, Reason.DUE)
    assert decide("paced", waiting=32) == Send(32, Reason.FULL)


def test_paced_stretches_the_gap_by_six_percent_near_capacity() -> None:
    busy = 0.86 * 6 * 32 / 0.1
    assert decide("paced", rate=busy, load=busy) == about(99.995 + 1.06 * 0.1 / 6)


def test_paced_goes_at_once_while_few_come_in_a_gap() -> None:
    """n / (2·3·(e^m - 1)·rate) is the gap or more, with m requests in a gap of S/G."""
    few = 0.3711  # m (e^m - 1) = 1/6
    assert few * (exp(few) - 1) == pytest.approx(1 / 6, rel=1e-3)
    for rate, gone in ((0.99 * 60 * few, True), (1.01 * 60 * few, False)):
        found = decide("paced", rate=rate, load=rate, peak=rate, last_dispatch=100.0)
        assert (found == Send(32, Reason.IDLE)) is gone
    assert isinstance(decide("paced", rate=0.0, load=0.0, peak=0.0, last_dispatch=100.0), Send)


def test_paced_brings_a_turn_forward_by_what_those_who_wait_would_save() -> None:
    rate, gap = 60.0, 0.1 / 6
    found = decide("paced", rate=rate, load=rate, peak=rate, waiting=1, last_dispatch=100.0)
    assert found == about(100.0 + gap - 1 / (2 * 3 * (exp(1.0) - 1) * rate))
    found = decide("paced", rate=rate, load=rate, peak=rate, waiting=2, last_dispatch=100.0)
    assert found == about(100.0 + gap - 2 / (2 * 3 * (exp(1.0) - 1) * rate))


def test_paced_finds_the_gap_of_an_affine_curve() -> None:
    """τ = a / (G - λ b), stretched by 5 %; a batch may hold 15 % more than a gap brings, and one."""
    curve, rate = curve_of(0.05, 0.0005, limit=100), 3000.0
    gap = 0.05 / (6 - rate * 0.0005)
    growing: dict[str, object] = {"rate": rate, "load": rate, "max_batch": 100, "curve": curve}
    found = decide("paced", **growing, peak=rate)
    assert found == about(99.995 + 1.05 * gap)
    cap = ceil(1.15 * rate * gap) + 1
    full = decide("paced", **growing, peak=rate, waiting=cap + 1)
    assert isinstance(full, Send)
    assert full.reason is Reason.FULL
    assert abs(full.size - cap) <= 1
    assert isinstance(decide("paced", **growing, peak=1.5 * rate, waiting=cap + 1), Wait)
    assert decide("paced", **growing, peak=rate, waiting=2 * cap + 5) == about(99.995 + 1.05 * gap)


def test_paced_beyond_capacity_does_not_wait_for_more_than_a_batch_may_hold() -> None:
    found = decide("paced", rate=5000.0, load=5000.0, curve=curve_of(0.01, 0.01, limit=32), max_wait=10.0)
    assert found == about(99.995 + 1.05 * 0.33 / 6)
    curve, rate = curve_of(0.05, 0.0005, limit=100), 8000.0  # capacity is 6,000/s
    found = decide("paced", rate=rate, load=rate, max_batch=100, curve=curve, max_wait=10.0)
    assert found == about(99.995 + 1.05 * 0.1 / 6)


@pytest.mark.parametrize(("a", "b", "limit", "rate"), [(0.01, 0.01, 32, 5000.0), (0.05, 0.0005, 100, 8000.0)])
def test_paced_beyond_capacity_sends_full_batches(a: float, b: float, limit: int, rate: float) -> None:
    for waiting in (limit, 5 * limit):
        found = decide(
            "paced",
            rate=rate,
            load=rate,
            peak=rate,
            max_batch=limit,
            curve=curve_of(a, b, limit),
            waiting=waiting,
        )
        assert found == Send(limit, Reason.FULL)


def stepped(*steps: tuple[int, float]) -> ServiceCurve:
    """A batch takes as long as one of the next of these sizes."""
    curve = ServiceCurve(steps[-1][0])
    for size, seconds in steps * 8:
        curve.observe(size * 3 // 4, seconds)
        curve.observe(size, seconds)
    return curve


def test_paced_sends_at_once_what_another_request_would_make_no_better() -> None:
    """Past the knee, and past a step of padding."""
    knee = ServiceCurve(128)
    for size in (1, 2, 4, 8, 16, 24, 32, 64, 128) * 8:
        knee.observe(size, 0.02 * max(1.0, size / 16))
    for waiting in (24, 50, 128, 500):
        assert decide("paced", curve=knee, max_batch=128, waiting=waiting) == Send(16, Reason.FULL)
    padded = stepped((16, 0.01), (32, 0.02), (64, 0.04))
    assert decide("paced", curve=padded, max_batch=64, waiting=18) == Send(16, Reason.FULL)


def nearly_level_past_128() -> ServiceCurve:
    """256 have 4 % more throughput than 128, less than the noise makes them differ by."""
    curve, up = ServiceCurve(256), 1.1
    for _ in range(40):
        for size in (1, 32, 64, 128, 256):
            curve.observe(size, up * max(0.004, 0.0076 * size / 128 * (0.96 if size > 128 else 1.0)))
        up = 2.0 - up
    return curve


def test_paced_prefers_the_smaller_of_two_that_are_nearly_as_good_unless_it_is_behind() -> None:
    curve = nearly_level_past_128()
    alone: dict[str, object] = {"workers": 1.0, "all_workers": 1.0, "max_batch": 256, "curve": curve}
    calm = {"rate": 8_000.0, "load": 8_000.0, "peak": 8_000.0}
    busy = {"rate": 16_000.0, "load": 16_000.0, "peak": 16_000.0}
    assert decide("paced", **alone, **calm, waiting=256) == Send(128, Reason.FULL)
    assert decide("paced", **alone, **busy, waiting=256) == Send(256, Reason.FULL)
    assert decide("paced", **alone, **calm, waiting=5_000) == Send(256, Reason.FULL)
    two: dict[str, object] = {**alone, "workers": 2.0, "all_workers": 2.0}
    full = {"rate": 34_000.0, "load": 34_000.0, "peak": 34_000.0}
    assert decide("paced", **two, **full, waiting=256) == Send(
        128, Reason.FULL
    )  # the other one may take the rest
    assert decide("paced", **two, **full, waiting=257) == Send(256, Reason.FULL)


def test_paced_leaves_none_behind_one_worker_that_would_hardly_keep_up_so() -> None:
    """112 take 6.8 ms and 150 take 8.8: 16,500/s and 17,100/s. The times vary by 15 %, so they look alike."""
    curve = ServiceCurve(256)
    for spread in (1.15, 0.85) * 100:
        for size, seconds in ((1, 4.2), (64, 4.2), (112, 6.75), (150, 8.77), (256, 14.4)):
            curve.observe(size, 0.001 * seconds * spread)
    assert curve.best_of(150) == 112
    alone: dict[str, object] = {
        "waiting": 150,
        "all_workers": 1.0,
        "workers": 1.0,
        "max_batch": 256,
        "curve": curve,
    }
    for rate, sent in ((10_000.0, Send(112, Reason.FULL)), (15_400.0, Send(150, Reason.IDLE))):
        assert decide("paced", rate=rate, load=rate, peak=rate, **alone) == sent
    several = {**alone, "all_workers": 2.0, "workers": 2.0}
    assert decide("paced", rate=15_400.0, load=15_400.0, peak=15_400.0, **several) == Send(112, Reason.FULL)


def test_paced_leaves_some_behind_one_worker_where_that_is_surely_better() -> None:
    curve = ServiceCurve(64)
    for _ in range(20):
        for size, seconds in ((1, 0.016), (16, 0.016), (32, 0.064), (64, 0.064)):
            curve.observe(size, seconds)
    alone: dict[str, object] = {"all_workers": 1.0, "workers": 1.0, "max_batch": 64, "curve": curve}
    for rate in (500.0, 900.0):
        assert decide("paced", waiting=20, rate=rate, load=rate, **alone) == Send(16, Reason.FULL)


def test_paced_tries_what_was_hardly_ever_run_only_where_it_is_far_behind() -> None:
    curve = ServiceCurve(256)
    for _ in range(40):
        for size in (1, 32, 64, 128):
            curve.observe(size, max(0.004, 0.0076 * size / 128))
    for size, seconds in ((256, 0.0153), (1, 0.004), (1, 0.004), (1, 0.004)):
        curve.observe(size, seconds)  # 256 take a little longer than two of 128
    alone: dict[str, object] = {"workers": 1.0, "all_workers": 1.0, "max_batch": 256, "curve": curve}
    busy = {"rate": 16_800.0, "load": 16_800.0, "peak": 16_800.0}
    assert decide("paced", **alone, **busy, waiting=511) == Send(128, Reason.FULL)
    assert decide("paced", **alone, **busy, waiting=512) == Send(256, Reason.FULL)
    for _ in range(60):
        curve.observe(256, 0.0153)
    assert decide("paced", **alone, **busy, waiting=512) == Send(128, Reason.FULL)


def test_paced_goes_by_the_latest_arrivals_where_they_are_more() -> None:
    """The gap is that of their rate, and so is what a batch may hold."""
    curve = curve_of(0.05, 0.002, limit=100)
    growing: dict[str, object] = {"rate": 1000.0, "load": 1000.0, "max_batch": 100, "curve": curve}
    assert decide("paced", **growing) == about(99.995 + 1.05 * 0.05 / (6 - 2))
    assert decide("paced", **growing, rising=2000.0) == about(99.995 + 1.05 * 0.05 / (6 - 4))
    assert decide("paced", **growing, waiting=20) == Send(16, Reason.FULL)
    assert isinstance(decide("paced", **growing, rising=2000.0, waiting=20), Wait)


def test_paced_does_not_send_the_first_of_a_burst_at_once() -> None:
    calm: dict[str, object] = {"rate": 10.0, "load": 10.0, "last_dispatch": 100.0}
    assert isinstance(decide("paced", **calm, peak=10.0), Send)
    assert isinstance(decide("paced", **calm, peak=1000.0), Wait)


def test_paced_leaves_no_crumbs_behind() -> None:
    """Four more than the best batch go with it where they cost no throughput."""
    knee = ServiceCurve(128)
    for size in (1, 2, 4, 8, 16, 20, 32, 64, 128) * 8:
        knee.observe(size, 0.02 * max(1.0, size / 16))
    found = decide("paced", curve=knee, max_batch=128, waiting=20, last_dispatch=99.0)
    assert found == Send(128, Reason.DUE)


def test_paced_has_nothing_to_keep_apart_with_one_worker() -> None:
    alone: dict[str, object] = {"workers": 1.0, "all_workers": 1.0, "busy": 0, "peak": 300.0}
    assert decide("paced", **alone, rate=300.0, load=300.0) == Send(1, Reason.IDLE)
    assert decide("paced", **alone, rate=300.0, load=300.0, waiting=31) == Send(31, Reason.IDLE)
    assert decide("paced", **alone, rate=300.0, load=300.0, waiting=40) == Send(32, Reason.FULL)


@pytest.mark.parametrize("workers", [1, 6])
def test_paced_fills_batches_when_a_burst_begins_that_is_too_much_for_the_workers(workers: int) -> None:
    capacity = workers * 32 / 0.1
    burst: dict[str, object] = {"workers": workers, "all_workers": workers, "busy": 0, "max_wait": 1.0}
    calm = {"rate": 0.4 * capacity, "load": 0.4 * capacity, "last_dispatch": 0.0}
    assert decide("paced", **burst, **calm, peak=1.1 * capacity, waiting=3) == about(100.1)
    assert isinstance(decide("paced", **burst, **calm, peak=0.9 * capacity, waiting=3), Send)
    assert decide("paced", **burst, **calm, peak=1.1 * capacity, waiting=32) == Send(32, Reason.FULL)
    under_way = {"rate": capacity, "load": capacity, "last_dispatch": 0.0}
    assert isinstance(decide("paced", **burst, **under_way, peak=1.5 * capacity, waiting=3), Send)


def test_paced_keeps_the_reserve_for_full_batches_until_max_wait() -> None:
    assert decide("paced", reserve=1, last_dispatch=0.0) == Wait(100.05)
    assert decide("paced", reserve=1, idle=2, last_dispatch=0.0) == Send(32, Reason.DUE)
    assert decide("paced", reserve=1, waiting=32) == Send(32, Reason.FULL)
    assert decide("paced", reserve=1, oldest=99.9) == Send(32, Reason.DUE)


def test_paced_that_knows_nothing_sends_one_batch_and_fills_the_others() -> None:
    new = ServiceCurve(32)
    assert decide("paced", curve=new, idle=6, busy=0) == Send(32, Reason.IDLE)
    assert decide("paced", curve=new, idle=5, busy=1) == Wait(100.05)
    assert decide("paced", curve=new, idle=5, busy=1, waiting=32) == Send(32, Reason.FULL)
