"""What `penstock tune` advises, and what it does not."""

from array import array
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from penstock.advice.goal import GPU_SECONDS, Goal
from penstock.advice.played import MEAN, P95, P99, Game, Latency, Played, play
from penstock.advice.search import front, search
from penstock.advice.setting import Setting
from penstock.advice.side_by_side import Players
from penstock.advice.space import Space, space_of
from penstock.advice.tuning import advised, tune
from penstock.core.capacity import CapacityRules
from penstock.core.rules import BatchingRules
from penstock.errors import UserMistake
from penstock.load.arrivals import bursty, uniform
from penstock.service_model import parse_service
from penstock.sim.kernel import Scenario

NOW = Setting("paced", 32, 0.05)
SPACE = space_of(NOW, workers=4, largest=64, longest=0.1, patience=2.0)


def made_up(
    setting: Setting, p99: float, gpu_seconds: float = 1.0, halves: tuple[float, float] | None = None
) -> Played:
    first, second = (Latency(each, each, each) for each in halves or (p99, p99))
    return Played(setting, Latency(p99, p99, p99), (first, second), 1.0, gpu_seconds, 8.0, 0.5)


def hills(setting: Setting) -> Played:
    """Best at window, 12, a wait of 18 ms; the larger and the later the batch, the less it costs."""
    away = abs(setting.max_batch - 12) / 100 + abs(setting.max_wait - 0.018) + 0.01 * setting.reserve
    away += 0.05 * (setting.policy != "window")
    return made_up(setting, 0.1 + away, 10.0 / setting.max_batch - setting.max_wait)


def all_hills(settings: Sequence[Setting]) -> list[Played]:
    return [hills(setting) for setting in settings]


@pytest.mark.parametrize("objective", [P99, P95, MEAN])
def test_the_search_finds_the_top_of_a_hill_without_walking_everywhere(objective: str) -> None:
    goal = Goal(objective)
    found = search(SPACE, goal, all_hills)
    assert min(found, key=goal.order).setting == Setting("window", 12, 0.018)
    assert len({played.setting for played in found}) == len(found) < len(list(SPACE.all())) / 3


def test_the_front_has_what_no_other_setting_beats_in_both() -> None:
    others = [replace(NOW, max_batch=size) for size in (1, 2, 3, 4)]
    figures = [(0.1, 5.0), (0.2, 3.0), (0.3, 4.0), (0.1, 6.0)]
    played = [made_up(setting, *figure) for setting, figure in zip(others, figures, strict=True)]
    assert [each.setting.max_batch for each in front(played, Goal(P99))] == [1, 2]


def test_what_is_as_good_stays_and_of_what_is_as_good_the_smallest_change_is_advised() -> None:
    goal, now = Goal(P99), made_up(NOW, 0.2)
    best = made_up(Setting("window", 16, 0.01), 0.1)
    smaller = made_up(replace(NOW, policy="window"), 0.1009)
    worse = made_up(replace(NOW, policy="greedy"), 0.102)
    assert advised([now, best, smaller, worse], now, goal) is smaller
    alike = made_up(NOW, 0.1009)
    assert advised([alike, best], alike, goal) is alike


def test_what_would_have_been_worse_in_one_half_of_the_traffic_is_not_advised() -> None:
    now = made_up(NOW, 0.2, halves=(0.1, 0.2))
    lucky = made_up(replace(NOW, policy="window"), 0.15, halves=(0.12, 0.15))
    assert advised([now, lucky], now, Goal(P99)) is now


def test_gpu_seconds_are_saved_within_a_bound_and_only_there() -> None:
    goal, now = Goal(GPU_SECONDS, 0.2), made_up(NOW, 0.2, 5.0)
    slow, fine = replace(NOW, max_batch=64), replace(NOW, policy="window")
    found = [now, made_up(slow, 0.3, 1.0), made_up(fine, 0.19, 3.0)]
    assert advised(found, now, goal).setting == fine
    # Where nothing keeps the bound, the fastest is advised, if it is faster than what is there.
    assert advised(found, now, Goal(GPU_SECONDS, 0.1)).setting == fine
    assert advised(found[:2], now, Goal(GPU_SECONDS, 0.1)) is now


def test_each_change_of_the_advice_is_needed() -> None:
    def flat(settings: Sequence[Setting]) -> list[Played]:
        return [made_up(setting, 0.1 if setting.policy == "window" else 0.2) for setting in settings]

    game = Game(
        Scenario(parse_service("100ms"), 4, BatchingRules(max_batch=32)), array("d", [0.0]), None, 0.0
    )
    advice = tune(game, SPACE, Goal(P99), flat)
    assert advice.advised.setting == replace(NOW, policy="window")
    assert advice.gain == pytest.approx(0.5)


def test_by_itself_it_makes_nothing_slower_for_the_sake_of_gpu_seconds() -> None:
    game = Game(
        Scenario(parse_service("100ms"), 4, BatchingRules(max_batch=32)), array("d", [0.0]), None, 0.0
    )
    advice = tune(game, SPACE, Goal(GPU_SECONDS), all_hills)
    assert advice.goal.within == hills(NOW).latency.p99
    assert advice.advised.latency.p99 <= advice.in_force.latency.p99
    assert advice.advised.gpu_seconds < advice.in_force.gpu_seconds


def test_whoever_gets_no_answer_counts_with_the_whole_time_limit() -> None:
    swamped = Scenario(parse_service("1s"), 1, BatchingRules(max_batch=1), queue_limit=2.0, request_limit=4.0)
    played = play(Game(swamped, uniform(10.0, 20.0), None, 0.0), Setting("greedy", 1, 0.05))
    assert played.answered < 0.2
    assert played.latency.p99 == 4.0
    assert played.latency.mean > 3.0
    assert [half.p99 for half in played.halves] == [4.0, 4.0]


def test_the_latency_of_one_tier_counts_if_that_is_asked() -> None:
    rules = BatchingRules(max_batch=4)
    scenario = Scenario(
        parse_service("100ms"), 1, rules, tier_shares=(0.3, 0.3, 0.4), capacity=CapacityRules(),
        tier_limits=((2.0, 3.0), (2.0, 4.0), (2.0, 5.0)),
    )  # fmt: skip
    game = Game(scenario, uniform(60.0, 20.0), None, 1.0)
    strict = Setting("paced", 4, 0.05, strict=True)
    first, last, all_of_them = (
        play(Game(scenario, game.times, None, 1.0, tier), strict) for tier in (0, 2, None)
    )
    assert first.answered > last.answered
    assert first.latency.p99 < last.latency.p99 == 5.0
    assert last.answered < all_of_them.answered < first.answered


def test_several_processes_play_as_one_does() -> None:
    scenario = Scenario(parse_service("a=20ms,b=1ms"), 2, BatchingRules(max_batch=16))
    game = Game(scenario, uniform(300.0, 2.0), None, 0.2)
    settings = [Setting(policy, 16, 0.02) for policy in ("paced", "window", "greedy")]
    seen: list[tuple[int, int]] = []
    with Players(game, 1) as alone, Players(game, 2, lambda *told: seen.append(told)) as many:
        one, two = alone.play(settings), many.play(settings)
    assert sorted(one, key=str) == sorted(two, key=str)
    assert seen == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_a_process_that_is_ended_from_outside_is_told_in_a_line() -> None:
    class Deadly(Game):
        def __reduce__(self) -> tuple[object, ...]:
            return (exit, (1,))

    scenario = Scenario(parse_service("1ms"))
    with (
        Players(Deadly(scenario, array("d", [0.0, 1.0]), None, 0.0), 2) as players,
        pytest.raises(UserMistake, match="try --jobs 1"),
    ):
        players.play([NOW])


def test_bursts_are_where_a_setting_is_worth_most() -> None:
    """The whole of it, small: on bursts another setting than the default may be best, and is then found."""
    scenario = Scenario(parse_service("a=50ms,b=1ms"), 4, BatchingRules(max_batch=64, policy="greedy"))
    game = Game(scenario, bursty(400.0, 3.0, 3.0, 1.0, Random(1)), None, 0.5)
    space: Space = space_of(
        Setting("greedy", 64, 0.05), workers=4, largest=64, longest=0.114, patience=2.0, live=True
    )
    with Players(game, 1) as players:
        advice = tune(game, space, Goal(P99), players.play)
    assert advice.gain > 0.0
    assert advice.advised.setting.max_batch == 64
