"""Writes into the log which policy each model goes by, and why. The process that forms a model's batches does so
(`own_overview.py`), with what it tells of its models anyway.

A line is written when a policy takes force, and when the reason has changed. What is learned moves at first, so a
reason that changes is told at most once a minute.
"""

import logging
from collections.abc import Mapping
from math import inf

from penstock.overview.reports import Standing
from penstock.types import Seconds

log = logging.getLogger("penstock.policy")

PAUSE: Seconds = 60.0  # between two reasons of one model


class PolicyLog:
    def __init__(self) -> None:
        self._told: dict[str, tuple[str, str]] = {}  # by model: the policy and its reason
        self._when: dict[str, Seconds] = {}  # by model: when that was told

    def look(self, models: Mapping[str, Standing], now: Seconds) -> None:
        """Take in how the models stand now, and log what is new."""
        for name, model in models.items():
            policy, reason = model.policy, model.policy_reason
            before, _ = told = self._told.get(name, ("", ""))
            recently = now - self._when.get(name, -inf) < PAUSE
            if told == (policy, reason) or (before == policy and recently):
                continue
            self._told[name], self._when[name] = (policy, reason), now
            log.info("policy in force", extra={"model": name, "policy": policy, "why": reason})
