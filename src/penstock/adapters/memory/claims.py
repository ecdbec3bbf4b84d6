"""Claims of idempotency keys, in memory: of all gateways that are asked with one key, one executes the request.
`records.py` makes the `MemoryClaims`, for tests that run gateways."""

from penstock.adapters.memory.tasks import Kept, SharedTasks
from penstock.idempotency import Keyed
from penstock.ports.records import PLACED_AT_MOST, PLACED_WITHIN, SETTLED_WITHIN, Claim
from penstock.types import Accepted, TaskStatus
from penstock.words.messages import task_name


class MemoryClaims:
    """Implements `ports.records.Claims`. `SharedTasks`, the books, holds a keyed request's record like a task's."""

    def __init__(self, books: SharedTasks, ttl: float) -> None:
        """`ttl`: seconds that an outcome is kept."""
        self._books, self._ttl = books, ttl

    async def claim(
        self,
        keyed: Keyed,
        request: Accepted,
        asked: str,
        limit: float,
        *,
        row: bool = False,
        retry_after: float = 1.0,
    ) -> Claim:
        books, name, now = self._books, task_name(keyed.tenant, keyed.id), self._books.clock()
        kept = books.find(name)
        if kept is not None and kept.lasting:
            if kept.fingerprint != keyed.fingerprint:
                return Claim(other=True)
            if kept.over:
                return Claim(over=True)
            placed = kept.shard is not None or kept.status is TaskStatus.PROCESSING
            left = (kept.ends if placed else kept.until) - now
            asked_twice = kept.request.key == request.key and not placed
            if left > 0 and not asked_twice:
                return Claim(placed=placed, seconds=left)
        books.drop(name)
        ends, wall = now + limit + SETTLED_WITHIN, books.wall_clock()
        until = now + min(PLACED_WITHIN * limit, PLACED_AT_MOST)
        made = Kept(
            request, wall, ends + self._ttl, self._ttl, changed=wall, fingerprint=keyed.fingerprint,
            asked=asked, brief=books.ttl, until=until, ends=ends, row=row,
        )  # fmt: skip
        if kept is not None:
            made.watchers |= kept.watchers
        books.add(name, made, retry_after)
        return Claim(ours=True)

    async def placed(self, keyed: Keyed, request: Accepted) -> None:
        name = task_name(keyed.tenant, keyed.id)
        kept = self._books.find(name)
        if kept is not None and kept.request.key == request.key:
            kept.shard = request.shard
            await self._books.tell(name, kept)

    async def forget(self, keyed: Keyed, request: Accepted) -> None:
        name = task_name(keyed.tenant, keyed.id)
        kept = self._books.find(name)
        if kept is not None and not kept.over and kept.request.key == request.key:
            self._books.drop(name)
            await self._books.tell(name, kept)
