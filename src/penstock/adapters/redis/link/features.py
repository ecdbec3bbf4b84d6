"""What a Redis server can do, and whether that is enough for the setting `redis.durability`. `connect.py` asks the
server when a process connects, and has its answers read here. A durability that the server cannot give ends the
process with a message. Pure, but for a warning in the log."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.adapters.redis.link.settings import RedisSettings
from penstock.errors import UserMistake

_log = logging.getLogger(__name__)

DURABILITIES = ("memory", "fsync", "replica")


@dataclass(frozen=True, slots=True)
class Features:
    """What all primaries of an installation can do."""

    kind: str  # redis or valkey
    version: tuple[int, ...]  # the server's own version, as (7, 0, 15)
    append_only: bool
    appendfsync: str | None  # always, everysec, no; None where we may not ask
    replicas: int  # connected to the primary that has the fewest
    maxmemory: int  # bytes; 0: no limit
    maxmemory_policy: str

    @property
    def has_waitaof(self) -> bool:
        return self.kind == "valkey" or self.version >= (7, 2)


def read_features(infos: Sequence[Mapping[str, Any]], appendfsync: Sequence[str | None]) -> Features:
    """Returns the features by the INFO of each primary. Of several primaries, the one that can do least counts."""
    kind = "valkey" if "valkey_version" in infos[0] else "redis"
    policies = [str(info.get("maxmemory_policy", "noeviction")) for info in infos]
    asked = set(appendfsync)
    return Features(
        kind=kind,
        version=min(_version(str(info[f"{kind}_version"])) for info in infos),
        append_only=all(str(info.get("aof_enabled", 0)) == "1" for info in infos),
        appendfsync=asked.pop() if len(asked) == 1 else None,
        replicas=min(int(info.get("connected_slaves", 0)) for info in infos),
        maxmemory=maxmemory(infos),
        maxmemory_policy=next((policy for policy in policies if policy != "noeviction"), "noeviction"),
    )


def maxmemory(infos: Sequence[Mapping[str, Any]]) -> int:
    """Returns the memory limit, in bytes, of the primary that may use least; 0 where no primary has a limit."""
    limits = [int(info.get("maxmemory", 0)) for info in infos]
    return min((limit for limit in limits if limit), default=0)


def memory_ratio(info: Mapping[str, Any]) -> float:
    """Returns the part of the allowed memory that one primary uses, by its INFO; 0 where it has no limit."""
    limit = int(info.get("maxmemory", 0))
    return int(info.get("used_memory", 0)) / limit if limit else 0.0


def check_durability(settings: RedisSettings, features: Features) -> None:
    """Raises UserMistake when the server cannot keep what `redis.durability` promises."""
    if settings.durability not in DURABILITIES:
        raise UserMistake(
            f"redis.durability is {settings.durability!r}: it must be {' or '.join(DURABILITIES)}"
        )
    if settings.durability == "fsync":
        if not features.append_only:
            raise UserMistake(
                "redis.durability = fsync needs a Redis that writes a log: set its 'appendonly yes'"
            )
        if not features.has_waitaof and features.appendfsync != "always":
            raise UserMistake(
                "redis.durability = fsync needs Redis 7.2, or an older one with 'appendfsync always'"
            )
    needed = max(1, settings.replicas)
    if settings.durability == "replica" and features.replicas < needed:
        raise UserMistake(
            f"redis.durability = replica needs {needed} replicas of each primary, and Redis has"
            f" {features.replicas}: connect more, or set redis.replicas lower"
        )
    if features.maxmemory_policy != "noeviction":
        _log.warning(
            "Redis may throw accepted requests away when its memory is full (maxmemory-policy is %s): "
            "set it to noeviction.",
            features.maxmemory_policy,
        )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())
