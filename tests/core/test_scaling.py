"""How many workers there should be: both rules, and what holds for all."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.scaling.scaler import RULES, Scaler
from penstock.core.scaling.seen import Decision, ScalingRules, Seen

ONE = 100.0  # requests a second that a worker of these tests does


@dataclass
class Fleet:
    """Workers that come `start` seconds after they were asked for, and go at once."""

    scaler: Scaler
    start: float = 20.0
    every: float = 1.0  # seconds between two looks
    now: float = 0.0
    ready: int = 0
    coming: list[float] = field(default_factory=list)
    told: list[Decision] = field(default_factory=list)

    def look(self, arrived: float = 0.0, waiting: float = 0.0, rate_of_one: float = ONE) -> Decision:
        self.now += self.every
        ready = sum(when <= self.now for when in self.coming)
        self.ready, self.coming = self.ready + ready, [when for when in self.coming if when > self.now]
        told = self.scaler.look(Seen(arrived, waiting, self.ready, rate_of_one, 10.0), self.now)
        missing = told.wanted - self.ready - len(self.coming)
        self.coming += [self.now + self.start] * missing
        for _ in range(-missing):
            if self.coming:
                self.coming.pop()
            else:
                self.ready -= 1
        self.told.append(told)
        return told

    def run(self, seconds: int, arrived: float = 0.0, waiting: float = 0.0) -> Decision:
        for _ in range(seconds):
            self.look(arrived, waiting)
        return self.told[-1]

    @property
    def counts(self) -> list[int]:
        return [told.wanted for told in self.told]


def fleet(present: int = 1, **given_rules: object) -> Fleet:
    rules = ScalingRules(**given_rules)  # type: ignore[arg-type]
    return Fleet(Scaler(rules, present, 0.0), ready=present)


# ---- predicted ---------------------------------------------------------------------------------------------


def test_the_arrivals_need_as_many_workers_as_do_them_at_the_target() -> None:
    told = fleet(most=20).run(60, arrived=350)
    assert told.wanted == 5  # 350 ÷ (100 × 0.8)
    # Of the 21,000 in a minute chance may have brought 3 × √21,000.
    assert told.why == "surely 342.7 requests a second, at 80% of the 100.0 that one worker does, need 5"


def test_a_backlog_needs_workers_that_work_it_off_in_the_drain_time() -> None:
    told = fleet(5, most=20).run(60, arrived=350, waiting=750)
    # 750 wait, and 6 batches of 10 are about to go: 690 ÷ (10 s × 100 × 0.7) is one worker more.
    assert told.wanted == 6
    assert "those for the backlog of 690 included" in told.why


def test_a_full_batch_for_each_worker_is_no_backlog() -> None:
    assert fleet(5, most=20).run(60, arrived=350, waiting=50).wanted == 5


def test_workers_that_are_starting_are_not_asked_for_again() -> None:
    slow = fleet(most=20)
    slow.start = 1000.0
    slow.run(900, arrived=350)
    assert max(slow.counts) == 5
    assert (slow.scaler.starting, slow.scaler.ready) == (4, 1)


def test_a_jump_of_the_arrivals_is_answered_within_seconds() -> None:
    some = fleet(2, most=50)
    some.run(120, arrived=100)
    assert some.run(6, arrived=1000).wanted > 5
    assert some.run(9, arrived=1000).wanted >= 13


def test_a_rise_is_drawn_out_over_the_time_that_a_start_takes() -> None:
    def by(start: float) -> int:
        rising = fleet(2, most=100, start=start)
        rising.start = start
        for second in range(60):
            rising.look(arrived=100 + 20 * second)
        return rising.counts[-1]

    assert by(30.0) > by(1.0)


def test_what_chance_explains_starts_nobody() -> None:
    rng = Random(1)
    some = fleet(2, most=50)
    for _ in range(1200):
        some.look(arrived=sum(rng.random() < 0.1 for _ in range(1000)))  # 100 a second, or so
    assert set(some.counts) == {2}


def test_bursts_such_as_there_were_many_of_late_start_nobody_and_a_rise_beyond_them_does() -> None:
    def added(calm: Traffic) -> int:
        some = fleet(5, most=20)
        for second in range(1800):
            some.look(arrived=calm(second))
        level = some.counts[-1]
        for _ in range(8):
            some.look(arrived=500.0)
        return some.counts[-1] - level

    assert added(lambda second: 500.0 if second % 90 < 10 else 250.0) == 0
    assert added(lambda second: 280.0) > 0


def test_workers_go_once_fewer_were_enough_for_the_whole_cool_down() -> None:
    some = fleet(20, most=20)
    some.run(400, arrived=1590)
    at = len(some.told)
    some.run(3000, arrived=300)
    told = some.told[at:]
    removals = [second for second in range(1, 3000) if told[second].wanted < told[second - 1].wanted]
    at_most_a_fifth = [19, 16, 13, 11, 9, 8, 7, 6, 5]
    assert [told[second].wanted for second in removals] == at_most_a_fifth
    assert removals[0] > 300
    assert removals[1:] == [removals[0] + 300 * step for step in range(1, 9)]
    assert "were needed in the last 300 s" in told[200].why
    assert "and never more than 19 in the last 300 s" in told[removals[0]].why
    assert "the last change was less than 300 s ago" in told[removals[0] + 200].why


def test_while_nobody_knows_what_a_worker_does_nothing_changes() -> None:
    some = fleet(2)
    assert some.look(arrived=500, rate_of_one=0.0) == (
        2, "nobody knows yet what one worker does: no batch has been seen",
    )  # fmt: skip


@pytest.mark.parametrize("rules", sorted(RULES))
def test_of_a_model_that_nobody_asks_for_no_more_than_the_least_is_kept_though_its_rate_is_unknown(
    rules: str,
) -> None:
    some = fleet(8, most=8, least=2, rules=rules)
    for _ in range(4 * 3600):
        told = some.look(rate_of_one=0.0)
    assert told.wanted == 2


def test_while_somebody_asks_for_a_model_of_unknown_rate_or_waits_for_it_nothing_is_removed() -> None:
    for arrived, waiting in ((1.0, 0.0), (0.0, 1.0)):
        some = fleet(8, most=8, cool_down=100.0)
        for second in range(1981):
            asks = second % 99 == 0
            some.look(arrived * asks, waiting * asks, rate_of_one=0.0)
        assert set(some.counts) == {8}
        assert {some.look(rate_of_one=0.0).wanted for _ in range(99)} == {8}
        assert some.look(rate_of_one=0.0) == (
            7, "nobody has asked for 100 s, and nobody knows yet what one worker does",
        )  # fmt: skip


# ---- classic -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arrived", "waiting", "seconds", "wanted", "why"),
    [
        (500, 501, 30, 13, "more than 500 have waited for 30 s"),
        (500, 101, 60, 11, "more than 100 have waited for 60 s"),
        (860, 0, 301, 11, "the load was above 85% for 300 s"),
        (390, 0, 900, 9, "the load was below 40% for 900 s"),
        (600, 100, 2000, 10, "the load is 60%, and 100 wait"),
    ],
)
def test_the_classic_rules_are_those_of_their_table(
    arrived: float, waiting: float, seconds: int, wanted: int, why: str
) -> None:
    some = fleet(10, most=20, rules="classic")
    some.scaler._changed = -1000.0
    some.run(seconds, arrived, waiting)
    assert some.counts[-1] == 10
    told = some.look(arrived, waiting)
    if wanted != 10:
        assert told == (wanted, why)
    assert why == told.why


def test_the_classic_rules_change_nothing_for_the_cool_down() -> None:
    some = fleet(10, most=20, rules="classic")
    told = some.run(299, arrived=500, waiting=1000)
    assert told == (10, "the last change was less than 300 s ago")
    assert some.run(300, arrived=500, waiting=1000).wanted == 13
    assert some.look(arrived=500, waiting=1000).wanted == 16


def test_without_a_worker_any_load_is_too_much() -> None:
    some = fleet(0, most=20, rules="classic")
    some.scaler._changed = -1000.0
    some.start = 10_000.0
    some.ready = 0
    some.look()
    assert some.run(302, arrived=1).wanted == 2


# ---- what holds for both -----------------------------------------------------------------------------------


def test_the_last_worker_goes_when_nobody_has_asked_for_the_idle_time_and_comes_with_the_first_request() -> (
    None
):
    some = fleet(1, least=0, idle=600.0)
    some.run(50, arrived=10)
    assert some.run(599).wanted == 1
    assert some.look() == (0, "nobody has asked for 600 s")
    assert some.run(400).why == "nobody has asked for 1,000 s"
    assert some.look(arrived=1) == (1, "somebody asks, and no worker is running")
    assert some.scaler.starts.next_in(some.now) == 30.0
    some.run(20)
    assert some.scaler.starts.seconds == 20.0  # it was measured


def test_no_worker_goes_below_the_least_though_nobody_asks() -> None:
    some = fleet(6, least=2)
    told = some.run(4000)
    assert told.wanted == 2
    assert "but 2 is the least that is kept" in told.why


def test_nobody_is_added_beyond_the_most() -> None:
    told = fleet(1, most=4).run(30, arrived=5000)
    assert told.wanted == 4
    assert told.why.endswith("but 4 is the most that is allowed")


def test_what_is_there_at_the_beginning_is_brought_within_the_bounds() -> None:
    scaler = Scaler(ScalingRules(least=2, most=4), 0, 0.0)
    assert (scaler.wanted, scaler.starting, scaler.starts.next_in(0.0)) == (2, 2, 30.0)
    assert Scaler(ScalingRules(most=4), 9, 0.0).wanted == 4


def test_a_pod_that_is_pending_for_hours_beside_workers_that_are_started_anew_says_nothing_of_starts() -> (
    None
):
    scaler = Scaler(ScalingRules(most=3), 2, 0.0)
    for second in range(1, 2 * 3600):
        away = second % 600 < 60  # one of the two that run is started anew
        scaler.look(Seen(200.0, 0.0, 1 if away else 2, ONE, 10.0), float(second))
    assert (scaler.wanted, scaler.starting) == (3, 1)
    assert not scaler.starts.measured
    scaler.look(Seen(200.0, 0.0, 3, ONE, 10.0), 2 * 3600.0)
    assert scaler.starting == 0
    assert scaler.starts.seconds == 30.0  # what is believed


def test_what_was_added_and_removed_is_counted() -> None:
    some = fleet(1, most=20)
    some.run(60, arrived=350)
    some.run(3000, arrived=100)
    assert (some.scaler.added, some.scaler.removed) == (4, 3)


Traffic = Callable[[int], float]
EVERY = 5  # seconds between two looks in the tests that follow


def waves(rate: float, swing: float, period: int, jitter: float, seed: int) -> Traffic:
    rng = Random(seed)
    return lambda second: max(
        0.0, rate * (1 + (swing if second % period < period / 2 else -swing) + jitter * rng.uniform(-1, 1))
    )


traffics: st.SearchStrategy[Traffic] = st.builds(
    waves, st.floats(0, 3000), st.floats(0, 1), st.integers(2, 1000), st.floats(0, 1), st.integers(0, 99)
)


@settings(max_examples=30)
@given(traffics, st.sampled_from(sorted(RULES)), st.integers(0, 3), st.integers(0, 30), st.integers(0, 40))
def test_whatever_comes_the_bounds_the_step_and_the_cool_down_are_kept(
    traffic: Traffic, rules: str, least: int, more: int, present: int
) -> None:
    most = max(1, least + more)
    some = fleet(present, least=least, most=most, rules=rules, cool_down=100.0, idle=100.0)
    some.every = EVERY
    before, changed = some.scaler.wanted, 0.0
    for second in range(0, 1500, EVERY):
        told = some.look(arrived=EVERY * traffic(second), waiting=traffic(second) / 3)
        assert least <= told.wanted <= most
        assert told.why
        if told.wanted < before:
            assert before - told.wanted <= max(1, int(0.2 * before))
            assert some.now - changed >= 100.0  # so no worker is taken away soon after one was started
        if told.wanted != before:
            before, changed = told.wanted, some.now


@settings(max_examples=30)
@given(st.floats(1, 3000), st.integers(0, 99))
def test_under_a_steady_load_the_number_settles_and_stays(rate: float, seed: int) -> None:
    some, rng = fleet(1, most=50), Random(seed)
    some.every = EVERY
    for _ in range(0, 2500, EVERY):
        some.look(arrived=max(0.0, rng.gauss(EVERY * rate, (EVERY * rate) ** 0.5)))
    settled = some.counts[200:]
    assert settled == sorted(settled)
    assert settled[-1] - settled[0] <= 1
    assert settled[-1] >= min(50, rate / (ONE * 0.9))
