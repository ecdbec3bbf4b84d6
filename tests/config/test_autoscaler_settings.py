"""What `[autoscaler]` may not say, and that its rules are those of the core."""

from dataclasses import fields

import pytest

from penstock.config import Autoscaler, load
from penstock.core.scaling.seen import ScalingRules
from penstock.errors import UserMistake
from penstock.from_config.scaling import scaling_rules


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"minimum": 9}, "--autoscaler-minimum: autoscaler.minimum must not be above autoscaler.maximum, 8"),
        ({"fast": "2min"}, "autoscaler.fast must not be above autoscaler.slow, 1min"),
        ({"act": "kubernetes"}, "--act: autoscaler.act is kubernetes: name the workers' Deployment"),
        ({"act": "command", "command": "scale"}, "--command: autoscaler.command must say where the number"),
        ({"at_once": 0}, "autoscaler.at_once"),
    ],
)
def test_a_contradiction_is_told_in_one_line(given: dict[str, object], says: str) -> None:
    with pytest.raises(UserMistake) as told:
        load(None, {}, {f"autoscaler.{key}": value for key, value in given.items()})
    assert says in told.value.message


def test_the_defaults_of_the_settings_are_those_of_the_rules() -> None:
    usual, said = ScalingRules(), scaling_rules(Autoscaler())
    assert all(getattr(said, each.name) == getattr(usual, each.name) for each in fields(ScalingRules))
