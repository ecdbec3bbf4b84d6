"""A batcher's way in, in memory: the shards that it leases. Each entry stays pending there until it is settled."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Generic

from penstock.adapters.memory.shard import SharedShards
from penstock.ports import Clock
from penstock.ports.bus import Aside
from penstock.ports.shards import Alive, Leases, Taken
from penstock.types import Failure, Request
from penstock.words.basics import Garbled
from penstock.words.envelopes import Envelope, decode_envelope

LOOK = 0.1  # seconds after which the intake looks even if nobody rings
NOT_TAKEN = Failure("INTERNAL", "a batcher could not take this request in")


class Entry:
    """One envelope that a batcher has in hand."""

    __slots__ = ("left", "number", "shard")

    def __init__(self, shard: int, number: int) -> None:
        self.shard = shard
        self.number = number
        self.left = 1  # its requests that are not settled yet, and one more while it is being taken in


class MemoryIntake(Generic[Taken]):
    """`penstock.ports.shards.Intake`."""

    def __init__(
        self,
        shards: SharedShards,
        me: str,
        clock: Clock,
        leases: Leases,
        alive: Alive,
        aside: Aside,
        kind: type[Taken],
    ) -> None:
        """`kind`: the class that requests are made as, for whoever takes them."""
        self._kind = kind
        self._shards, self._me, self._clock, self._leases, self._alive = shards, me, clock, leases, alive
        self._aside = aside
        self._entries: dict[tuple[int, int], Entry] = {}  # envelopes in hand, until they are settled
        self._owned: frozenset[int] = frozenset()
        self._living: frozenset[str] = frozenset()
        self._doubtful: set[int] = set()  # shards in which something may have been left
        self._lay: dict[int, int] = {}  # for each shard the last entry that lay there when we came
        self._bell = asyncio.Event()
        self._progress = asyncio.Event()
        self._closing = False
        self.in_hand: dict[str, tuple[Taken, Entry]] = {}  # the requests in hand and their envelopes, by key
        self.on_inherited: Callable[[Taken], None] = lambda request: None
        self.on_lost: Callable[[Sequence[Taken]], None] = lambda requests: None
        self.on_refused: Callable[[Taken, Failure], None] = lambda request, failure: None
        self.on_unreadable: Callable[[str, Sequence[str], Failure], None] = lambda box, keys, failure: None

    def subscribe(self, on_request: Callable[[Taken], None], on_withdraw: Callable[[Taken], None]) -> None:
        self._on_request = self.on_inherited = on_request
        self._on_withdraw = on_withdraw

    def shards_changed(self) -> None:
        self._bell.set()

    def settled(self, requests: Iterable[Request]) -> None:
        for request in requests:
            held = self.in_hand.pop(request.key, None)
            if held is not None:
                self._let_go(held[1])

    def _let_go(self, entry: Entry) -> None:
        entry.left -= 1
        if not entry.left:
            del self._entries[entry.shard, entry.number]
            self._shards.every[entry.shard].settle(self._me, entry.number)
            self._progress.set()

    # ---- the loop ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        self._shards.listen(self._bell)
        try:
            while True:
                self._bell.clear()
                if not self._closing:
                    self._look()
                try:
                    async with asyncio.timeout(LOOK):
                        await self._bell.wait()
                except TimeoutError:
                    pass
        finally:
            self._shards.leave(self._bell)

    async def release(self) -> None:
        self._closing = True
        while self._entries:
            self._progress.clear()
            await self._progress.wait()

    def _look(self) -> None:
        self._note_changes()
        for shard in sorted(self._doubtful):
            self._look_for_what_was_left(shard)
        self._doubtful.clear()
        for shard in sorted(self._owned):
            for number, body in self._shards.every[shard].take_new(self._me):
                self._take(shard, number, body, inherited=number <= self._lay.get(shard, 0))

    def _note_changes(self) -> None:
        owned, living = frozenset(self._leases.owned), frozenset(self._alive())
        for shard in owned - self._owned:
            self._lay[shard] = self._shards.every[shard].last
        self._doubtful |= owned ^ self._owned
        if living != self._living:
            self._doubtful |= owned
        self._owned, self._living = owned, living

    def _look_for_what_was_left(self, number: int) -> None:
        shard = self._shards.every[number]
        taken = [
            entry
            for (of, each), entry in self._entries.items()
            if of == number and shard.given.get(each) != self._me
        ]
        if taken:
            self._lose(taken)
        if number in self._owned and self._me in self._living:
            for each, body in shard.take_over(self._me, self._living):
                self._take(number, each, body, inherited=True)

    def _lose(self, entries: Sequence[Entry]) -> None:
        """Let go of these envelopes: another batcher answers for them now."""
        for entry in entries:
            del self._entries[entry.shard, entry.number]
        requests = [request for request, entry in self.in_hand.values() if entry in entries]
        for request in requests:
            del self.in_hand[request.key]
        self._progress.set()
        self.on_lost(requests)

    # ---- an entry ------------------------------------------------------------------------------------------

    def _take(self, shard: int, number: int, body: bytes, *, inherited: bool) -> None:
        entry = self._entries[shard, number] = Entry(shard, number)
        try:
            envelope = decode_envelope(body)
        except Garbled as error:
            self._aside.add("envelope", f"shard {shard}", str(error), body)
            envelope = Envelope("", 0.0, [], [])
        for wire in envelope.requests:
            if wire.key not in self.in_hand:
                request = wire.request(self._kind, envelope.gateway, envelope.sent)
                self.in_hand[wire.key] = request, entry
                entry.left += 1
                self._hand_over(request, inherited=inherited)
        for key in envelope.withdrawn:
            held = self.in_hand.get(key)
            if held is not None:
                self._on_withdraw(held[0])
                self.settled([held[0]])
        self._let_go(entry)

    def _hand_over(self, request: Taken, *, inherited: bool) -> None:
        try:
            if inherited:
                if request.expires < request.deadline:  # equal limits mean that the client set one of its own
                    request.expires = inf
                self.on_inherited(request)
            else:
                self._on_request(request)
        except Exception as error:
            self._aside.add("request", request.gateway, f"{type(error).__name__}: {error}")
            self.on_refused(request, NOT_TAKEN)
