"""Claims of idempotency keys, over Redis: of all gateways that are asked with one key, one executes the request. A
gateway asks with each request that has a key (`cluster/idempotency.py`); `records.py` makes the `RedisClaims`.

Redis decides which gateway. That gateway claims the key, publishes the request, and says to which shard it went. If
it dies in between, its claim runs out, and the next gateway that is asked may claim the key.

The scripts, their keys and their answers are in `idempotency_scripts.py`. What all claims take up is counted in the
books (`keys.held`, `holdings.py`). The ledger is a database with one row for each accepted request that has ended.
"""

from penstock.adapters.redis.bus.mailbox import Post
from penstock.adapters.redis.link.connect import Store, guard
from penstock.adapters.redis.link.gathered import Gathered
from penstock.adapters.redis.link.scripts import Argument
from penstock.adapters.redis.records.holdings import Bounds
from penstock.adapters.redis.records.holdings import keyed as usual_bounds
from penstock.adapters.redis.records.idempotency_scripts import CLAIM, FORGET, PLACE
from penstock.adapters.redis.records.task_endings import News, tell
from penstock.adapters.redis.records.tasks import size_of
from penstock.idempotency import Keyed
from penstock.ports.records import PLACED_AT_MOST, PLACED_WITHIN, SETTLED_WITHIN, Claim
from penstock.types import Accepted, TaskStatus
from penstock.words.messages import task_name


class RedisClaims:
    """Implements `ports.records.Claims`."""

    def __init__(
        self, store: Store, post: Post, ttl: float, brief: float, bounds: Bounds | None = None
    ) -> None:
        """`ttl`: seconds that an outcome is kept. `brief`: the same for a failure that a retry may mend."""
        self._bounds = bounds or usual_bounds()
        self._store, self._post = store, post
        self._keep, self._brief = round(ttl * 1e3), round(brief * 1e3)
        # `forget` is rare, so its calls are not gathered into common round trips.
        self._claim, self._place = Gathered(CLAIM, store), Gathered(PLACE, store)

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
        """Try to claim a key. `request`: what is published if the key is ours. `asked`: the id that the client
        gave. `limit`: seconds the request may take. `row`: no gateway will wait for it, so that the script which
        ends it must add its row for the ledger. `retry_after`: what the refusal says if there is no room for it."""
        arguments: tuple[Argument, ...] = (
            keyed.tenant, request.key, request.model, self._keep, self._brief, keyed.fingerprint, asked,
            round(min(PLACED_WITHIN * limit, PLACED_AT_MOST) * 1e3), round((limit + SETTLED_WITHIN) * 1e3),
            size_of(request), *self._bounds.arguments(self._store),
        )  # fmt: skip
        if row:
            arguments += (request.tier,)
        with guard():
            name, keys = _name(keyed), self._store.keys
            said, *rest = await self._claim([keys.task(name), *keys.held(name)], arguments)
        # If another gateway has the key, `rest` holds the ms for which it is believed, and whether its request was
        # placed (1 or 0).
        if said == b"full":
            raise self._bounds.refusal(rest[0], self._store, retry_after)
        if said == b"held":
            return Claim(placed=bool(rest[1]), seconds=rest[0] / 1e3)
        return Claim(ours=said == b"ours", other=said == b"other", over=said == b"over")

    async def placed(self, keyed: Keyed, request: Accepted) -> None:
        """Note that Redis has the request, and tell the gateways where somebody waits for it."""
        assert request.shard is not None
        with guard():
            # After its first item the answer has the mailboxes of gateways where somebody waits.
            answer = await self._place(self._names(keyed), [request.key, request.shard])
        await tell(self._post, News(_name(keyed), TaskStatus.PENDING, answer[1:]))

    async def forget(self, keyed: Keyed, request: Accepted) -> None:
        """Note that the request was not accepted, and tell the gateways where somebody waits for it: they may claim
        the key."""
        with guard():
            names = [*self._names(keyed), *self._store.keys.held(_name(keyed))]
            # After its first item the answer has the mailboxes of gateways where somebody waits.
            answer = await FORGET(self._store.commands, names, [request.key])
        await tell(self._post, News(_name(keyed), TaskStatus.PENDING, answer[1:]))

    def _names(self, keyed: Keyed) -> list[str]:
        keys = self._store.keys
        return [keys.task(_name(keyed)), keys.watch(_name(keyed))]


def _name(keyed: Keyed) -> str:
    return task_name(keyed.tenant, keyed.id)
