"""The settings that `penstock tune` may try."""

from dataclasses import replace

import pytest

from penstock.advice.played import Game, play
from penstock.advice.setting import Setting, setting_of, with_setting
from penstock.advice.space import BLIND_TO, space_of
from penstock.core.rules import BatchingRules
from penstock.core.sizes import powers_to
from penstock.load.arrivals import uniform
from penstock.service_model import parse_service
from penstock.sim.kernel import Scenario

NOW = Setting("paced", 32, 0.05)
SPACE = space_of(NOW, workers=3, largest=48, longest=0.1, patience=2.0)
SCENARIO = Scenario(parse_service("a=20ms,b=1ms"), 3, BatchingRules(max_batch=32))


def test_it_has_every_policy_sizes_up_to_the_largest_waits_by_the_longest_batch_and_what_is_in_force() -> (
    None
):
    assert set(SPACE.policies) >= {"paced", "window", "ewma", "table", "greedy"}
    assert SPACE.batches == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48]
    assert (SPACE.waits[0], SPACE.waits[-1]) == (0.003, 0.2)
    assert 0.05 in SPACE.waits
    assert SPACE.reserves == [0, 1, 2]
    assert SPACE.orders == (False,)
    assert NOW in set(SPACE.all())
    assert set(SPACE.spread_out()) <= set(SPACE.all())


def test_nothing_is_tried_that_nobody_would_wait_for_or_that_the_configuration_forbids() -> None:
    short = space_of(NOW, workers=1, largest=64, longest=10.0, patience=0.4)
    assert max(short.waits) < 0.4
    assert short.reserves == [0]
    listed = space_of(NOW, workers=1, largest=64, longest=0.1, patience=2.0, any_size=False)
    assert listed.batches == [32]
    live = space_of(NOW, workers=2, largest=64, longest=0.1, patience=2.0, live=True, several_tiers=True)
    assert live.batches == [32]
    assert live.orders == (False, True)


def test_neighbours_are_one_step_away_in_what_the_policy_looks_at() -> None:
    assert {(each.max_batch, each.max_wait, each.reserve) for each in SPACE.beside(NOW)} == {
        (24, 0.05, 0), (48, 0.05, 0), (32, 0.035, 0), (32, 0.07, 0), (32, 0.05, 1),
    }  # fmt: skip
    assert {each.max_batch for each in SPACE.beside(replace(NOW, policy="greedy"))} == {24, 48}


@pytest.mark.parametrize("policy", sorted(BLIND_TO))
def test_a_policy_is_blind_to_what_it_is_said_to_be_blind_to(policy: str) -> None:
    game = Game(SCENARIO, uniform(700.0, 3.0), None, 0.5)
    others = {"max_wait": 0.007, "reserve": 2}
    plain = replace(setting_of(SCENARIO), policy=policy)
    other = replace(plain, **{name: others[name] for name in BLIND_TO[policy]})  # type: ignore[arg-type]
    assert play(game, plain).latency == play(game, other).latency


def test_a_setting_goes_into_the_rules_and_comes_out_again() -> None:
    setting = Setting("window", 24, 0.02, 1, strict=True)
    there = with_setting(SCENARIO, setting)
    assert setting_of(there) == setting
    assert there.warmed == [1, 2, 4, 8, 16, 24]
    assert not there.rules.sizes.allowed
    powers = replace(SCENARIO, rules=replace(SCENARIO.rules, sizes=powers_to(32)))
    assert with_setting(powers, setting).rules.sizes.allowed == (1, 2, 4, 8, 16, 24)
    assert with_setting(powers, setting_of(powers)).rules.sizes == powers.rules.sizes


def test_changes_are_counted_and_those_that_need_a_restart_weigh_more() -> None:
    assert NOW.changes(NOW) == (0, 0)
    assert replace(NOW, policy="window", reserve=1).changes(NOW) == (0, 2)
    assert replace(NOW, max_batch=16).changes(NOW) == (1, 1)
