"""Answers that are given again: those that this gateway remembers, and those that others have told of."""

from collections.abc import Sequence

from penstock.core.fingerprint import MAKER_BYTES, maker
from penstock.core.memory import Remembered
from penstock.ports import Clock
from penstock.runtime.collapse.flight import AnswerMemory, Flight
from penstock.runtime.collapse.passenger import Passenger, own
from penstock.runtime.collapse.shared_answers import SharedAnswers
from penstock.runtime.collapse.sharing import Sharing
from penstock.types import Execution, Outcome, Reply, WorkerId

NOBODY = bytes(MAKER_BYTES)
# The part of its time that an answer lives in the common store. A copy of it in a gateway has the rest.
STORE_PART = 0.9


class Recall:
    def __init__(self, memory: AnswerMemory, elsewhere: SharedAnswers[Flight] | None, clock: Clock) -> None:
        """`elsewhere`: what other gateways remember."""
        self._memory = memory
        self._elsewhere = elsewhere
        self._clock = clock

    def keep(self, sharing: Sharing, request: Passenger, output: bytes, version: str, now: float) -> bool:
        """Keep an answer, under the version that made it or else the one that was asked for. Gives whether it was
        kept."""
        ttl = sharing.ttl
        if (
            not ttl or not request.epoch
        ):  # a request with an idempotency key has no epoch: it is no passenger of a flight
            return False
        if version:
            request.epoch = sharing.epoch
        place = sharing.place(request)
        if not self._memory.put(place, output, sharing.version, request.tenant, now + ttl, now):
            return False
        sharing.stored += 1
        return True

    def keep_some(self, sharing: Sharing, replies: Sequence[Reply], version: str) -> None:
        """Keep answers of one batch, to requests that nobody had joined."""
        if sharing.ttl:
            now = self._clock()
            for reply in sharing.worth_keeping(replies, now):
                self.keep(sharing, own(reply), reply.output, version, now)

    def keep_and_tell(
        self, sharing: Sharing, flight: Flight, request: Passenger, output: bytes, version: str
    ) -> None:
        """Keep an answer, and tell it to the other gateways where they have been asked for it."""
        kept = self.keep(sharing, request, output, version, self._clock())
        if kept and flight.fingerprint is not None and self._elsewhere is not None:
            fingerprint = flight.fingerprint
            if version and version != flight.version:
                fingerprint = sharing.fingerprints.of(request)
            made_for = maker(request.tenant) if sharing.shared else NOBODY
            self._elsewhere.keep(fingerprint, made_for + output, sharing.ttl * STORE_PART)

    def take_over(self, sharing: Sharing, flight: Flight, value: bytes) -> Remembered:
        """Remember an answer that was found at other gateways."""
        now = self._clock()
        output, made_for = value[MAKER_BYTES:], value[:MAKER_BYTES]
        expires = now + sharing.ttl * (1.0 - STORE_PART)
        self._memory.put(flight.place, output, flight.version, made_for, expires, now)
        return output, flight.version, made_for, expires, flight.place

    def find(self, request: Passenger, found: Remembered) -> bool:
        """Whether a remembered answer is still given again. If so it counts as used. The place looked at is the
        answer's own, since the request's holds a second copy of the input."""
        if found[3] > request.arrival:
            self._memory.used.add(found[4])
            return True
        self._memory.forget(found)
        return False

    def reply(self, sharing: Sharing, request: Passenger, found: Remembered) -> Reply:
        """The reply that a remembered answer gives. An answer that another tenant's request has made looks like
        any other: only a tenant's own is said to be cached."""
        output, version, made_for, _, _ = found
        sharing.hits += 1
        is_own = made_for == request.tenant or made_for == maker(request.tenant) if sharing.shared else True
        execution = Execution(WorkerId(""), 0, 0, request.arrival, 0.0, version, cached=True, counted=False)
        if not is_own:
            execution.batch_size, execution.cached = 1, False
            execution.seconds = self._clock() - request.arrival
        return Reply(request, Outcome.SUCCESS, output, None, execution)
