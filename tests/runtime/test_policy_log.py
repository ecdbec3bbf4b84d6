"""The log says which policy is in force, and why."""

import logging

import pytest

from penstock.overview.reports import Standing
from penstock.runtime.policy_log import PAUSE, PolicyLog


def models(policy: str, reason: str) -> dict[str, Standing]:
    return {"m": Standing(policy=policy, policy_reason=reason)}


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, str]]:
    """The model, the policy and the reason of each line."""
    fields = [vars(record) for record in caplog.records]
    return [(each["model"], each["policy"], each["why"]) for each in fields]


def test_a_policy_is_told_when_it_takes_force(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.policy")
    policies = PolicyLog()
    policies.look(models("paced", "none seen"), 0.0)
    policies.look(models("paced", "none seen"), 1000.0)
    policies.look(models("greedy", "at once"), 1000.1)
    policies.look(models("paced", "none seen"), 1000.2)
    paced, greedy = ("m", "paced", "none seen"), ("m", "greedy", "at once")
    assert told(caplog) == [paced, greedy, paced]


def test_a_reason_that_changes_is_told_once_a_minute_at_most(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock.policy")
    policies = PolicyLog()
    for step in range(13):
        policies.look(models("paced", f"reason {step}"), step * PAUSE / 6)
    assert [why for *_, why in told(caplog)] == ["reason 0", "reason 6", "reason 12"]
