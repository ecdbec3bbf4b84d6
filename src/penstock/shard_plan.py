"""Which shards a batcher takes and which it gives back. No input or output here.

Every batcher has a quota: the shards divided by the live batchers, the remainder to the first of them by
name. The quotas add up to all shards, so who is above its own gives back exactly what others lack. Nobody
takes what another holds, and nobody gives back within its quota: once quotas are met nothing moves.
"""

from collections.abc import Collection
from hashlib import blake2b
from typing import NamedTuple


class ShardPlan(NamedTuple):
    take: list[int]  # free ones, the preferred first
    give: list[int]


def quota(shards: int, batchers: Collection[str], me: str) -> int:
    """How many shards are mine. I count even while the others do not see me yet."""
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
    """`others` are the shards somebody else holds; `former` those I held before an outage, best had again."""
    due = quota(shards, batchers, me)
    ranked = sorted(range(shards), key=lambda shard: (shard not in former, _rank(me, shard)))
    free = [shard for shard in ranked if shard not in mine and shard not in others]
    surplus = [shard for shard in reversed(ranked) if shard in mine][: max(0, len(mine) - due)]
    return ShardPlan(free[: max(0, due - len(mine))], surplus)


def _rank(me: str, shard: int) -> bytes:
    """An order of one's own, so that two who look for shards at once seldom try the same."""
    return blake2b(f"{me} {shard}".encode(), digest_size=8).digest()
