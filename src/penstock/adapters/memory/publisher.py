"""A gateway's publisher in memory. It puts all requests that wait into one envelope, and the envelope into the next
shard in turn. `bus.py` makes it, for tests that run gateways. `adapters/outbox.py`, the base of the publisher over
Redis too, holds what is not sent yet."""

from collections.abc import Collection, Sequence

from penstock.adapters.memory.shard import SharedShards
from penstock.adapters.outbox import Outbox
from penstock.ports import Clock
from penstock.types import Accepted
from penstock.words.envelopes import encode_envelope


class MemoryPublisher(Outbox):
    """Implements `ports.shards.Publisher`."""

    def __init__(
        self, shards: SharedShards, box: str, clock: Clock, max_requests: int, max_bytes: int
    ) -> None:
        super().__init__(max_requests, max_bytes)
        self._shards, self._box, self._clock = shards, box, clock
        self._open: Sequence[int] = range(len(shards.every))  # the shards that requests go to
        self._latest = -1  # the index among these of the shard to which the last requests went

    def prefer(self, shards: Collection[int]) -> None:
        self._open = sorted(shards)

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._unsent:
                self._latest = (self._latest + 1) % len(self._open)
                self._send(self._open[self._latest], self._take_unsent())
            for shard in list(self._withdrawn):
                self._send(shard, [])
            self._quiet.set()

    def _send(self, shard: int, requests: Sequence[Accepted]) -> None:
        for request in requests:
            request.shard = shard
        withdrawn = self._withdrawn.pop(shard, [])
        self._shards.publish(shard, encode_envelope(self._box, requests, withdrawn, self._clock()))
        self._accept(requests)
