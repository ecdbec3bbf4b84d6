"""What a gateway has published for the batchers and not sent yet: requests, withdrawals, and the callers that wait
until a request is sent. The publishers over Redis and in memory (`redis/bus/publisher.py`, `memory/publisher.py`)
are subclasses.

publish ──► unsent ──► taken for an envelope ──► accepted, failed, or put back
              │ withdrawn: never sent
              └ too many: refused
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence

from penstock.errors import Cancelled, Overloaded, PenstockError, StoreDown
from penstock.types import Accepted, Failure


async def nothing() -> None:
    """Nothing has to be done before something is sent again."""


class Outbox:
    """The part of `ports.shards.Publisher` that does not depend on where envelopes go. A subclass sends them."""

    # Why a request is refused when too many wait to be sent.
    full = "more arrives than is sent: limits.max_queue or limits.max_queue_bytes wait"

    def __init__(self, max_requests: int, max_bytes: int) -> None:
        self.bound(max_requests, max_bytes)
        self._unsent: dict[str, Accepted] = {}  # by key
        self._unsent_bytes = 0  # the size of their inputs
        self._withdrawn: defaultdict[int, list[str]] = defaultdict(list)  # the keys to withdraw, by shard
        self._acceptances: dict[str, asyncio.Future[None]] = {}  # by key, the callers of `accepted`
        self._wake = asyncio.Event()  # set when there is something to send
        self._quiet = asyncio.Event()  # set when nothing is left to send, or nowhere to send it
        self.on_failed: Callable[[Sequence[Accepted], Failure], None] = lambda requests, failure: None
        self.on_back: Callable[[], Awaitable[None]] = nothing

    @property
    def down(self) -> bool:
        """Whether nothing can be accepted now."""
        return False

    @property
    def unsent(self) -> int:
        return len(self._unsent)

    def bound(self, max_requests: int, max_bytes: int) -> None:
        """Sets how many requests and bytes may wait to be sent."""
        self._max_requests, self._max_bytes = max_requests, max_bytes

    # ---- calls that never wait ---------------------------------------------------------------------------

    def publish(self, request: Accepted) -> None:
        """Take a request to be sent. One that cannot be taken fails in the next turn of the loop."""
        if len(self._unsent) >= self._max_requests or self._unsent_bytes >= self._max_bytes:
            self._refuse(request, Overloaded(self.full, retry_after=1.0))
        elif self.down:
            self._refuse(request, store_down())
        else:
            self._unsent[request.key] = request
            self._unsent_bytes += len(request.input)
            self._wake.set()

    def withdraw(self, request: Accepted) -> None:
        """Take a request back, whether it was sent or not."""
        if self._unsent.pop(request.key, None) is not None:
            self._unsent_bytes -= len(request.input)
            acceptance = self._acceptances.pop(request.key, None)
            if acceptance is not None and not acceptance.done():
                acceptance.set_exception(Cancelled("withdrawn before it was accepted"))
        elif request.shard is not None:
            self.withdraw_key(request.key, request.shard)

    def withdraw_key(self, key: str, shard: int) -> None:
        """Withdraw a request that perhaps another gateway sent."""
        keys = self._withdrawn[shard]
        # While nothing can be sent, withdrawals pile up. A lost one does no harm: the request runs for nobody.
        if len(keys) < self._max_requests:
            keys.append(key)
            self._wake.set()

    # ---- calls that wait ---------------------------------------------------------------------------------

    async def accepted(self, request: Accepted) -> None:
        """Publish, and return when the shard has it; raises StoreDown or Overloaded when it has not."""
        acceptance = asyncio.get_running_loop().create_future()
        self._acceptances[request.key] = acceptance
        try:
            self.publish(request)
            await acceptance
        finally:
            self._acceptances.pop(request.key, None)

    async def flush(self) -> None:
        """Return when nothing is left to send, or nowhere to send it. `run` must be running."""
        self._quiet.clear()
        self._wake.set()
        await self._quiet.wait()

    # ---- for the subclass, which sends -------------------------------------------------------------------

    def _take_unsent(self) -> list[Accepted]:
        """Returns all that is not sent yet, for an envelope."""
        requests = list(self._unsent.values())
        self._unsent, self._unsent_bytes = {}, 0
        return requests

    def _put_back(self, requests: Sequence[Accepted]) -> None:
        """Takes back requests that could not be sent: they go before all others."""
        self._unsent = {request.key: request for request in (*requests, *self._unsent.values())}
        self._unsent_bytes += sum(len(request.input) for request in requests)
        self._wake.set()

    def _accept(self, requests: Sequence[Accepted]) -> None:
        """Wake the callers of `accepted` for these requests: they are in their shard."""
        if not self._acceptances:
            return
        for request in requests:
            acceptance = self._acceptances.get(request.key)
            if acceptance is not None and not acceptance.done():
                acceptance.set_result(None)

    def _refuse(self, request: Accepted, error: PenstockError) -> None:
        """Refuse the request in the next turn of the loop: the caller of `publish` has not finished accepting
        it."""
        asyncio.get_running_loop().call_soon(self._fail, [request], error)

    def _fail(self, requests: Sequence[Accepted], error: PenstockError) -> None:
        """Raise the error in `accepted` where a caller waits there; report the other requests by `on_failed`."""
        others = []
        for request in requests:
            acceptance = self._acceptances.get(request.key)
            if acceptance is None:
                others.append(request)
            elif not acceptance.done():
                acceptance.set_exception(error)
        if others:
            self.on_failed(others, Failure.of(error))


def store_down(details: str = "") -> StoreDown:
    """Returns the error for a request that cannot be accepted because Redis does not answer."""
    return StoreDown("Redis does not answer: nothing can be accepted now.", retry_after=1.0, details=details)
