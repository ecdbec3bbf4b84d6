"""What `penstock tune` varies, as one value: how a model's batches are formed. `search.py` walks over settings,
`played.py` simulates one, and `shown_advice.py` writes it as a fragment of penstock.toml. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from penstock.core.ladder import ladder
from penstock.core.sizes import powers_to
from penstock.sim.kernel import Scenario
from penstock.types import Seconds

NEEDS_RESTART = ("max_batch",)  # settings that a running server does not take over


@dataclass(frozen=True, slots=True)
class Setting:
    """How a model's batches are formed. The names are those of the configuration, except `strict`, which is
    `order = "strict"` in [tiers]."""

    policy: str
    max_batch: int
    max_wait: Seconds
    reserve: int = 0  # workers kept for full batches
    strict: bool = False

    def differs(self, other: "Setting") -> Iterator[str]:
        """Yields the names of what is not the same."""
        for field in fields(self):
            if getattr(self, field.name) != getattr(other, field.name):
                yield field.name

    def changes(self, other: "Setting") -> tuple[int, int]:
        """How much has to change from the other to this one: what needs a restart, and everything."""
        different = list(self.differs(other))
        return sum(name in NEEDS_RESTART for name in different), len(different)


def taken_back(setting: Setting, name: str, before: Setting) -> Setting:
    """Returns the setting with one value as it was before."""
    return changed(setting, name, getattr(before, name))


def changed(setting: Setting, name: str, value: Any) -> Setting:
    """Returns the setting with another value of one name."""
    values: dict[str, Any] = {name: value}
    return replace(setting, **values)


def setting_of(scenario: Scenario) -> Setting:
    """Returns the setting that a scenario has."""
    rules = scenario.rules
    return Setting(rules.policy, rules.max_batch, rules.max_wait, rules.reserve, rules.tiers.strict)


def with_setting(scenario: Scenario, setting: Setting) -> Scenario:
    """Returns the scenario with another setting. The sizes that workers have run beforehand follow the largest
    batch, and so do the allowed ones where these are powers of two."""
    rules = scenario.rules
    sizes = rules.sizes
    if sizes.allowed and setting.max_batch != rules.max_batch:
        sizes = powers_to(setting.max_batch)
    rules = replace(
        rules, policy=setting.policy, max_batch=setting.max_batch, sizes=sizes, max_wait=setting.max_wait,
        reserve=setting.reserve, tiers=replace(rules.tiers, strict=setting.strict),
    )  # fmt: skip
    return replace(scenario, rules=rules, warmed=ladder(sizes.allowed, setting.max_batch))
