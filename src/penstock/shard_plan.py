"""Which shards (streams of requests from gateways) a batcher takes and which it gives back, when batchers come or
go. The batcher's leases ask this, over Redis (`adapters/redis/bus/leases.py`) and in memory
(`adapters/memory/leases.py`), and then do it: here it is only calculated.

Every batcher has an even part: the shards divided by the live batchers, and one of the remainder for each of the
first by name. The parts add up to all shards. So a batcher that has more than its part gives back exactly what
others lack. No batcher takes a shard that another holds, and none gives back more than it has too many: once each
has its part, nothing moves.
"""

from collections.abc import Collection
from hashlib import blake2b
from typing import NamedTuple


class ShardPlan(NamedTuple):
    take: list[int]  # free shards to take, the preferred first
    give: list[int]  # shards to give back


def even_part(shards: int, batchers: Collection[str], me: str) -> int:
    """How many shards `me` should have. `me` counts even if it is not yet among `batchers`."""
    names = sorted({*batchers, me})
    share, remainder = divmod(shards, len(names))
    return share + (names.index(me) < remainder)


def plan(
    shards: int,
    mine: Collection[int],
    others: Collection[int],
    batchers: Collection[str],
    me: str,
    former: Collection[int] = (),
) -> ShardPlan:
    """Which shards `me` takes, and which it gives back. `mine`: the shards that it holds. `others`: those that
    other batchers hold. `former`: those that it held before an outage, which it prefers."""
    due = even_part(shards, batchers, me)
    ranked = sorted(range(shards), key=lambda shard: (shard not in former, _rank(me, shard)))
    free = [shard for shard in ranked if shard not in mine and shard not in others]
    surplus = [shard for shard in reversed(ranked) if shard in mine][: max(0, len(mine) - due)]
    return ShardPlan(free[: max(0, due - len(mine))], surplus)


def _rank(me: str, shard: int) -> bytes:
    """Sorts shards in an order of each batcher's own, so that two that look for shards at once seldom try the
    same."""
    return blake2b(f"{me} {shard}".encode(), digest_size=8).digest()
