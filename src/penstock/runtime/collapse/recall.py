"""Keeps answers of deterministic models and gives them again: a gateway's cache. `flights` asks it before it lets a
request take off, and gives it each answer that lands.

Answers are kept in this gateway's own memory; some are also written to the store that all gateways share
(`elsewhere`).
"""

from collections.abc import Sequence

from penstock.core.fingerprint import MAKER_BYTES, maker
from penstock.core.remembered_answers import Remembered
from penstock.ports import Clock
from penstock.runtime.collapse.flight import AnswerMemory, Flight
from penstock.runtime.collapse.passenger import Passenger, own
from penstock.runtime.collapse.shared_answers import SharedAnswers
from penstock.runtime.collapse.sharing import Sharing
from penstock.types import Execution, Outcome, Reply, WorkerId

NOBODY = bytes(MAKER_BYTES)  # stands for the tenant where each tenant has its own answers
# The part of its time (`ttl`) that an answer lives in the shared store. A copy that a gateway takes has the rest.
STORE_PART = 0.9


class Recall:
    def __init__(self, memory: AnswerMemory, elsewhere: SharedAnswers[Flight] | None, clock: Clock) -> None:
        """`elsewhere`: the store shared by all gateways; None if there is none."""
        self._memory = memory
        self._elsewhere = elsewhere
        self._clock = clock

    def keep(self, sharing: Sharing, request: Passenger, output: bytes, version: str, now: float) -> bool:
        """Keep an answer. If `version` is known, the answer is kept under that version (the caller has told
        `sharing` of it); otherwise under the version known when the request came. Returns whether it was kept."""
        ttl = sharing.ttl
        # A request with an Idempotency-Key never enters `Flights`, so its `epoch` is empty. Its answer is not kept
        # here.
        if not ttl or not request.epoch:
            return False
        if version:
            request.epoch = sharing.epoch
        place = sharing.place(request)
        if not self._memory.put(place, output, sharing.version, request.tenant, now + ttl, now):
            return False
        sharing.stored += 1
        return True

    def keep_some(self, sharing: Sharing, replies: Sequence[Reply], version: str) -> None:
        """Keep answers of one batch to requests that nobody had joined, those that are worth it."""
        if sharing.ttl:
            now = self._clock()
            for reply in sharing.worth_keeping(replies, now):
                self.keep(sharing, own(reply), reply.output, version, now)

    def keep_and_tell(
        self, sharing: Sharing, flight: Flight, request: Passenger, output: bytes, version: str
    ) -> None:
        """Keep an answer. If the shared store was asked for this answer, write it there too."""
        kept = self.keep(sharing, request, output, version, self._clock())
        if kept and flight.fingerprint is not None and self._elsewhere is not None:
            fingerprint = flight.fingerprint
            if version and version != flight.version:
                fingerprint = sharing.fingerprints.of(request)
            made_for = maker(request.tenant) if sharing.shared else NOBODY
            self._elsewhere.keep(fingerprint, made_for + output, sharing.ttl * STORE_PART)

    def take_over(self, sharing: Sharing, flight: Flight, value: bytes) -> Remembered:
        """Remember an answer that was found in the shared store."""
        now = self._clock()
        output, made_for = value[MAKER_BYTES:], value[:MAKER_BYTES]
        expires = now + sharing.ttl * (1.0 - STORE_PART)
        self._memory.put(flight.place, output, flight.version, made_for, expires, now)
        return output, flight.version, made_for, expires, flight.place

    def still_valid(self, request: Passenger, found: Remembered) -> bool:
        """Returns whether a remembered answer is still valid. A valid answer is marked as used, an expired one is
        forgotten. The mark is the answer's own place: the request's equal one would keep a second copy of the input
        alive."""
        _, _, _, expires, place = found
        if expires > request.arrival:
            self._memory.used.add(place)
            return True
        self._memory.forget(found)
        return False

    def reply(self, sharing: Sharing, request: Passenger, found: Remembered) -> Reply:
        """The reply that a remembered answer gives. An answer that was made for another tenant is reported as
        executed, not as cached, so that a tenant cannot see what others ask."""
        output, version, made_for, _, _ = found
        sharing.hits += 1
        is_own = made_for == request.tenant or made_for == maker(request.tenant) if sharing.shared else True
        execution = Execution(WorkerId(""), 0, 0, request.arrival, 0.0, version, cached=True, counted=False)
        if not is_own:
            execution.batch_size, execution.cached = 1, False
            execution.seconds = self._clock() - request.arrival
        return Reply(request, Outcome.SUCCESS, output, None, execution)
