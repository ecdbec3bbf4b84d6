"""A gateway's way to the batchers in memory: many requests to an envelope, and an envelope to the next shard."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence

from penstock.adapters.memory.shard import SharedShards
from penstock.errors import Cancelled, Overloaded
from penstock.ports import Clock
from penstock.types import Accepted, Failure
from penstock.words.envelopes import encode_envelope

FULL = "more arrives than is sent: limits.max_queue or limits.max_queue_bytes wait"


class MemoryPublisher:
    """`penstock.ports.shards.Publisher`."""

    down = False

    def __init__(
        self, shards: SharedShards, box: str, clock: Clock, max_requests: int, max_bytes: int
    ) -> None:
        self._shards, self._box, self._clock = shards, box, clock
        self._max_requests, self._max_bytes = max_requests, max_bytes
        self._turn = -1
        self._unsent: dict[str, Accepted] = {}
        self._unsent_bytes = 0
        self._withdrawn: defaultdict[int, list[str]] = defaultdict(list)  # the keys to withdraw, by shard
        self._acceptances: dict[str, asyncio.Future[None]] = {}
        self._wake = asyncio.Event()
        self._quiet = asyncio.Event()
        self.on_failed: Callable[[Sequence[Accepted], Failure], None] = lambda requests, failure: None

    def publish(self, request: Accepted) -> None:
        if len(self._unsent) >= self._max_requests or self._unsent_bytes >= self._max_bytes:
            asyncio.get_running_loop().call_soon(self._refuse, request)
            return
        self._unsent[request.key] = request
        self._unsent_bytes += len(request.input)
        self._wake.set()

    def _refuse(self, request: Accepted) -> None:
        """Refuse the request soon, and not while whoever publishes it is still accepting it."""
        acceptance = self._acceptances.get(request.key)
        if acceptance is None:
            self.on_failed([request], Failure(Overloaded.code, FULL, retry_after=1.0))
        elif not acceptance.done():
            acceptance.set_exception(Overloaded(FULL, retry_after=1.0))

    def withdraw(self, request: Accepted) -> None:
        if self._unsent.pop(request.key, None) is not None:
            self._unsent_bytes -= len(request.input)
            acceptance = self._acceptances.pop(request.key, None)
            if acceptance is not None and not acceptance.done():
                acceptance.set_exception(Cancelled("withdrawn before it was accepted"))
        elif request.shard is not None:
            self.withdraw_key(request.key, request.shard)

    def withdraw_key(self, key: str, shard: int) -> None:
        self._withdrawn[shard].append(key)
        self._wake.set()

    async def accepted(self, request: Accepted) -> None:
        acceptance = self._acceptances[request.key] = asyncio.get_running_loop().create_future()
        try:
            self.publish(request)
            await acceptance
        finally:
            self._acceptances.pop(request.key, None)

    async def flush(self) -> None:
        self._quiet.clear()
        self._wake.set()
        await self._quiet.wait()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._unsent:
                self._turn = (self._turn + 1) % len(self._shards.every)
                self._send(self._turn)
            for shard in list(self._withdrawn):
                self._send(shard)
            self._quiet.set()

    def _send(self, shard: int) -> None:
        requests = list(self._unsent.values())
        self._unsent, self._unsent_bytes = {}, 0
        for request in requests:
            request.shard = shard
        withdrawn = self._withdrawn.pop(shard, [])
        self._shards.publish(shard, encode_envelope(self._box, requests, withdrawn, self._clock()))
        for request in requests:
            acceptance = self._acceptances.get(request.key)
            if acceptance is not None and not acceptance.done():
                acceptance.set_result(None)
