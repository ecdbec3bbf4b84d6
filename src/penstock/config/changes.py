"""What a running server takes over when its configuration is read again, and what needs a restart.

`server/live_settings.py` calls `changes` on SIGHUP. A server that goes by some of a new configuration and not by
the rest goes by a third one, which is worked out here, key by key, and must hold together like any other.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from penstock.config.config import Config
from penstock.config.consistency import refuse_contradictions
from penstock.config.schema import Key, NamedTables, Table, items
from penstock.config.sections import Tiers
from penstock.config.toml import KeyPath, dotted

# The keys that a running server takes over; `*` stands for a name. docs/configuration.md lists them.
CHANGEABLE = {
    "server": ("log_level", "drain", "drain_grace"),
    "autoscaler": (
        "minimum", "maximum", "rules", "target", "drain", "fast", "slow", "cool_down", "at_once", "idle", "start",
    ),
    "limits": ("max_queue", "max_queue_bytes", "max_lanes"),
    "timeouts": ("timeout", "queue", "processing", "request", "max_client"),
    "tiers": ("order", "default", "ageing", "lowest_share", "warning", "critical", "reference_rps"),
    "tiers.levels.*": (
        "rank", "weight", "requests_per_minute", "burst", "in_flight", "queue_share", "queue_timeout",
        "request_timeout",
    ),
    "tenants.*": ("tier",),
    "models.*": (
        "policy", "max_wait", "reserve", "timeout", "queue_timeout", "processing_timeout", "request_timeout",
        "objective",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Changed:
    """A setting that a running server has taken over."""

    key: str
    was: str  # as TOML; empty where it was not set
    now: str
    source: str  # where the new value came from


@dataclass(frozen=True, slots=True)
class Changes:
    """What became of a configuration that was read again."""

    config: Config  # what is in force now
    taken: list[Changed]
    need_restart: list[str]  # keys of settings that have changed and are not in force; or of a whole table


def changes(old: Config, new: Config) -> Changes:
    """Works out what a server that goes by `old` goes by once it has read `new`. Raises UserMistake if that would
    contradict itself: a setting that can change and one that cannot were changed together."""
    merge = _Merge(old, new)
    config = replace(merge.config(), sources=merge.sources())
    refuse_contradictions(config)
    return Changes(config, merge.taken, merge.need_restart)


class _Merge:
    """Works out, section by section, what is in force."""

    def __init__(self, old: Config, new: Config) -> None:
        self._old, self._new = old, new
        # Queues are made for the tiers that there are at the start, so the tiers and their order stay. If they
        # would change, the tiers of tenants stay too.
        self._same_tiers = _order(old.tiers) == _order(new.tiers)
        self.taken: list[Changed] = []
        self.need_restart: list[str] = []

    def config(self) -> Config:
        merged: Config = self._section(self._old, self._new, ())
        return merged

    def sources(self) -> Mapping[str, str]:
        """Returns where each value in force came from."""
        stays = tuple(self.need_restart)

        def is_old(key: str) -> bool:
            return any(key == each or key.startswith(f"{each}.") for each in stays)

        kept = {key: source for key, source in self._old.sources.items() if is_old(key)}
        return {key: source for key, source in self._new.sources.items() if not is_old(key)} | kept

    def _section(self, old: Any, new: Any, above: KeyPath) -> Any:
        """Returns one section as it is in force. `above`: where the section stands."""
        values: dict[str, Any] = {}
        for name, item in items(type(old)).items():
            here, was, now = (*above, name), getattr(old, name), getattr(new, name)
            if was == now:
                continue
            match item:
                case Key(kind=kind):
                    if self._may_change(here):
                        values[name] = now
                        before, after = ("" if value is None else kind.write(value) for value in (was, now))
                        self.taken.append(
                            Changed(dotted(here), before, after, self._new.source(dotted(here)))
                        )
                    else:
                        self.need_restart.append(dotted(here))
                case Table():
                    values[name] = self._section(was, now, here)
                case NamedTables(section):
                    values[name] = dict(self._tables(section, was, now, here))
        return replace(old, **values) if values else old

    def _tables(
        self, section: type[Any], old: Mapping[str, Any], new: Mapping[str, Any], above: KeyPath
    ) -> Iterator[tuple[str, Any]]:
        """Yields the tables that users name, as they are in force. Tenants may come and go; a model or a tier is
        there from the start."""
        come_and_go = above == ("tenants",) and self._same_tiers
        for name in [*old, *(each for each in new if each not in old)]:
            here = (*above, name)
            if name in old and name in new:
                yield name, self._section(old[name], new[name], here)
            elif come_and_go:
                told = self._section(old.get(name, section()), new.get(name, section()), here)
                if name in new:
                    yield name, told
            else:
                self.need_restart.append(dotted(here))
                if name in old:
                    yield name, old[name]

    def _may_change(self, path: KeyPath) -> bool:
        if path[0] in ("tiers", "tenants") and not self._same_tiers:
            return False
        return path[-1] in CHANGEABLE.get(_pattern(path[:-1]), ())


def _pattern(section: KeyPath) -> str:
    """Returns the name of a section in `CHANGEABLE`."""
    match section:
        case ("tiers", "levels", _):
            return "tiers.levels.*"
        case ("models" | "tenants" as table, _):
            return f"{table}.*"
        case _:
            return dotted(section)


def _order(tiers: Tiers) -> list[str]:
    """Returns the names of the tiers, the best first."""
    return sorted(tiers.levels, key=lambda name: tiers.levels[name].rank)
