"""Which shards (streams of requests from gateways) a batcher takes and which it gives back, when batchers come or
go; and which shards are at home in which zone. The batcher's leases ask this, over Redis
(`adapters/redis/bus/leases.py`) and in memory (`adapters/memory/leases.py`), and then do it; gateways ask where to
send (`cluster/gateway.py`). Here it is only calculated, from what everybody knows of the batchers.

The shards are dealt out evenly to the zones that have a batcher. Within its zone every batcher has an even part:
the zone's shards divided by its live batchers, and one of the remainder for each of the first by name. The parts
add up to all shards. So a batcher that has more than its part gives back exactly what others lack. No batcher takes
a shard that another holds, and none gives back more than it has too many: once each has its part, nothing moves.

Processes without a zone are in the zone without a name. Where there is no other, all of this is as if there were no
zones.
"""

from collections.abc import Callable, Collection
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

ZoneOf = Callable[[str], str]  # says in which zone a batcher is, by its name


class ShardPlan(NamedTuple):
    """What one batcher is to do."""

    take: list[int]  # free shards to take, the preferred first
    give: list[int]  # shards to give back


def nowhere(batcher: str) -> str:
    """The zone of every batcher, where there are no zones."""
    return ""


def even_part(shards: int, batchers: Collection[str], me: str) -> int:
    """How many of so many shards `me` should have. `me` counts even if it is not yet among `batchers`."""
    names = sorted({*batchers, me})
    part, remainder = divmod(shards, len(names))
    return part + (names.index(me) < remainder)


def shards_at_home(shards: int, zones: Collection[str], zone: str) -> Collection[int]:
    """The shards of a zone. `zones`: those that have a batcher. A zone that has none, or for which no shard is
    left, has all: its requests go to whoever is there."""
    others = {*zones} - {zone}
    if not others or zone not in zones:
        return range(shards)
    return _dealt(shards, tuple(sorted({*zones}))).get(zone) or range(shards)


def own_part(shards: int, batchers: Collection[str], me: str, zone_of: ZoneOf = nowhere) -> int:
    """How many shards `me` should have, whichever zone it is in."""
    home, neighbours = _field(shards, batchers, me, zone_of)
    return even_part(len(home), neighbours, me)


def plan(
    shards: int,
    mine: Collection[int],
    others: Collection[int],
    batchers: Collection[str],
    me: str,
    former: Collection[int] = (),
    zone_of: ZoneOf = nowhere,
) -> ShardPlan:
    """Which shards `me` takes, and which it gives back. `mine`: the shards that it holds. `others`: those that
    other batchers hold. `former`: those that it held before an outage, which it prefers."""
    home, neighbours = _field(shards, batchers, me, zone_of)
    due = even_part(len(home), neighbours, me)
    ranked = sorted(home, key=lambda shard: (shard not in former, _rank(me, shard)))
    kept = [shard for shard in ranked if shard in mine]
    strange = [shard for shard in mine if shard not in home]
    free = [shard for shard in ranked if shard not in mine and shard not in others]
    surplus = kept[::-1][: max(0, len(kept) - due)]
    return ShardPlan(free[: max(0, due - len(kept))], strange + surplus)


def _field(
    shards: int, batchers: Collection[str], me: str, zone_of: ZoneOf
) -> tuple[Collection[int], Collection[str]]:
    """The shards that `me` shares with others, and with whom: those of its zone."""
    zones = {name: zone_of(name) for name in (*batchers, me)}
    mine, there = zones[me], {*zones.values()}
    if len(there) == 1:
        return range(shards), batchers
    return _dealt(shards, tuple(sorted(there))).get(mine, ()), [
        name for name, zone in zones.items() if zone == mine
    ]


@lru_cache(maxsize=64)
def _dealt(shards: int, zones: tuple[str, ...]) -> dict[str, frozenset[int]]:
    """The shards of each zone. Each zone ranks the shards in an order of its own, and the best ranks are given
    first: so most shards stay where they are when a zone comes or goes."""
    room = {zone: even_part(shards, zones, zone) for zone in zones}
    wishes = sorted((_rank(zone, shard), shard, zone) for zone in zones for shard in range(shards))
    home: dict[int, str] = {}
    for _, shard, zone in wishes:
        if shard not in home and room[zone]:
            home[shard] = zone
            room[zone] -= 1
    return {zone: frozenset(shard for shard, own in home.items() if own == zone) for zone in zones}


def _rank(name: str, shard: int) -> bytes:
    """Sorts shards in an order of each batcher's or zone's own, so that two batchers that look for shards at once
    seldom try the same."""
    return blake2b(f"{name} {shard}".encode(), digest_size=8).digest()
