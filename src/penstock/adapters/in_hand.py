"""The envelopes that a batcher has read and whose requests are not all settled. An envelope is what a gateway
sends: many requests in one message. The intakes over Redis and in memory (`redis/bus/intake.py`,
`memory/intake.py`) are subclasses.

    envelope taken ──► its requests are in hand ──► all of them settled ──► the envelope is finished

A request that lay in a shard before anybody leased it, or that a dead batcher left, is inherited. It was accepted,
and waited while nobody was there to send it. So nobody refuses it any more, and its queue limit is void: only its
deadline bounds it.

A request that cannot be read, or cannot be taken in, is set aside, and its envelope is finished. If it stayed
pending, every later owner of the shard would fail at it again. Its gateway is told, if the envelope can be read so
far that it names the gateway.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from math import inf
from typing import Generic, TypeVar

from penstock.ports.bus import Aside
from penstock.ports.shards import Taken
from penstock.said_once import SaidOnce
from penstock.types import Failure, Request
from penstock.words.basics import Garbled
from penstock.words.envelopes import Envelope, decode_envelope, salvage_envelope

log = logging.getLogger("penstock.batcher")

NOT_READ = Failure(
    "SERVICE_OVERLOADED",
    "a batcher of another version could not read this request: try again",
    retry_after=1.0,
)
NOT_TAKEN = Failure("INTERNAL", "a batcher could not take this request in")

EntryId = TypeVar("EntryId", bound=Hashable)  # how an envelope is named in its shard


class Entry(Generic[EntryId]):
    """One envelope that this batcher has in hand."""

    __slots__ = ("id", "left", "shard")

    def __init__(self, shard: int, entry_id: EntryId) -> None:
        self.shard = shard
        self.id = entry_id
        # Requests of the envelope that are not settled yet, and one more while it is being taken in.
        self.left = 1


class InHand(ABC, Generic[Taken, EntryId]):
    """The part of `ports.shards.Intake` that does not depend on where envelopes come from. A subclass reads
    them."""

    def __init__(self, kind: type[Taken], aside: Aside) -> None:
        """`kind`: the class of which requests are made, because `on_request` expects it."""
        self._kind = kind
        self._aside = aside
        self._not_taken = SaidOnce(log, "a request could not be taken in")
        self._not_withdrawn = SaidOnce(log, "a request could not be withdrawn")
        self._entries: dict[tuple[int, EntryId], Entry[EntryId]] = {}  # envelopes in hand
        self._progress = asyncio.Event()  # set when there is less in hand
        # The requests in hand and their envelopes, by key.
        self.in_hand: dict[str, tuple[Taken, Entry[EntryId]]] = {}
        self.on_inherited: Callable[[Taken], None] = lambda request: None
        self.on_lost: Callable[[Sequence[Taken]], None] = lambda requests: None
        # Called for a request that is in hand and could not be taken in. The callback must settle it.
        self.on_refused: Callable[[Taken, Failure], None] = lambda request, failure: None
        # Called with a gateway's mailbox and the keys of requests that could not be read.
        self.on_unreadable: Callable[[str, Sequence[str], Failure], None] = lambda box, keys, failure: None

    def subscribe(self, on_request: Callable[[Taken], None], on_withdraw: Callable[[Taken], None]) -> None:
        self._on_request = self.on_inherited = on_request
        self._on_withdraw = on_withdraw

    def settled(self, requests: Iterable[Request]) -> None:
        for request in requests:
            held = self.in_hand.pop(request.key, None)
            if held is not None:
                self._let_go(held[1])

    def _let_go(self, entry: Entry[EntryId]) -> None:
        entry.left -= 1
        if not entry.left:
            self._finished(entry)
            self._progress.set()

    @abstractmethod
    def _finished(self, entry: Entry[EntryId]) -> None:
        """Tell the shard that it may forget this envelope: all its requests are settled."""

    def _sent_at(self, envelope: Envelope, received: float) -> float:
        """Returns when the envelope was sent, by our own clock. Redis has another clock, so its intake overrides
        this."""
        return envelope.sent

    def _take(
        self, shard: int, entry_id: EntryId, body: bytes, where: str, received: float, *, inherited: bool
    ) -> int:
        """Take the requests of an envelope in hand. Returns how many it has. `where` is the shard's name for the
        record of an envelope that cannot be read."""
        if (shard, entry_id) in self._entries:  # the shard gave us again an envelope that we have
            return 0
        entry = self._entries[shard, entry_id] = Entry(shard, entry_id)
        try:
            envelope = decode_envelope(body)
        except Garbled as error:
            envelope = self._salvage(where, body, error)
        sent = self._sent_at(envelope, received)
        in_hand = self.in_hand
        for wire in envelope.requests:
            if wire.key not in in_hand:  # otherwise it was sent twice, and its twin is in another entry
                request = wire.request(self._kind, envelope.gateway, sent)
                in_hand[wire.key] = request, entry
                entry.left += 1
                try:
                    if inherited:
                        # Equal limits mean that the client set one of its own.
                        if request.expires < request.deadline:
                            request.expires = inf
                        self.on_inherited(request)
                    else:
                        self._on_request(request)
                except Exception as error:
                    self._refuse(request, envelope.gateway, error)
        for key in envelope.withdrawn:
            withdrawn = in_hand.get(key)
            if withdrawn is not None:
                self._withdraw(withdrawn[0])
        self._let_go(entry)
        return len(envelope.requests)

    def _withdraw(self, request: Taken) -> None:
        try:
            self._on_withdraw(request)
        except Exception as error:
            self._not_withdrawn.say(error)
            self._aside.add("withdrawal", request.model, f"{type(error).__name__}: {error}")
        self.settled([request])

    def _salvage(self, where: str, body: bytes, error: Garbled) -> Envelope:
        """Returns the part of an envelope that can be read, when the whole cannot."""
        self._aside.add("envelope", where, str(error), body)
        try:
            salvaged = salvage_envelope(body)
        except Garbled:
            return Envelope("", 0.0, [], [])
        if salvaged.unreadable:
            self.on_unreadable(salvaged.envelope.gateway, salvaged.unreadable, NOT_READ)
        return salvaged.envelope

    def _refuse(self, request: Taken, gateway: str, error: Exception) -> None:
        self._not_taken.say(error)
        self._aside.add("request", gateway, f"{type(error).__name__}: {error}", request.input)
        try:
            self.on_refused(request, NOT_TAKEN)
        except BaseException:
            self.settled([request])
            raise

    def _lose(self, entries: Sequence[Entry[EntryId]]) -> None:
        """Let go of these envelopes: another batcher answers for them now."""
        gone = set(entries)
        for entry in entries:
            del self._entries[entry.shard, entry.id]
        requests = [request for request, entry in self.in_hand.values() if entry in gone]
        for request in requests:
            del self.in_hand[request.key]
        self._progress.set()
        log.warning("entries were taken from us", extra={"entries": len(entries)})
        self.on_lost(requests)
