"""Identical requests to a deterministic model, executed once and answered each (SPEC B7, D7).

    asked ──remembered──► answered at once
      │ else
      ├──the same is on its way──► joins that flight
      └──► a flight of its own ──looked up elsewhere?──► carrier sent ──► landed: everyone aboard has the output
                                                            ▲    │ the carrier's own end: too late, refused
                                                            └────┘ the next one aboard is the carrier

Rules
- Everyone aboard has a waiter, a deadline and a quota of its own, and leaves when it likes. Nothing is withdrawn
  while somebody is aboard; when the last one leaves, the carrier is.
- The carrier is the request of one aboard (of a task a copy, since a task's input is let go at its end). It stays
  the carrier when its asker leaves.
- A failure is everyone's, unless it is the carrier's own: a deadline that passed, or was too short for the queue.
  Then those with no more time than the carrier are told, and the most urgent of the others is sent.
- Whoever is more urgent than the carrier (a better tier; in the same tier an earlier limit) takes its place, and
  the former carrier is withdrawn: a good tier never waits in a worse one's queue. Once the carrier is on a worker
  nobody can be faster, so then it only joins. Where that cannot be seen (the batcher is elsewhere) both may run.
- Of several carriers' answers the first counts; of their failures only the present one's.
"""

from collections.abc import Sequence
from dataclasses import replace

from penstock.core.fingerprint import MAKER_BYTES, Fingerprints, maker
from penstock.core.memory import Memory, Remembered
from penstock.errors import Cancelled, ClientLeft, DeadlineExceeded, Overloaded
from penstock.ports import Asker, Clock
from penstock.runtime.desk import Desk, Sharing
from penstock.runtime.shared_answers import Lookup, SharedAnswers
from penstock.runtime.waiters import Waiter, Waiters
from penstock.types import Execution, Failure, Outcome, Reply, Request, WorkerId

ITS_OWN = frozenset({DeadlineExceeded.code, Overloaded.code, Cancelled.code, ClientLeft.code})
NOBODY = bytes(MAKER_BYTES)
# An answer lives so long in the common store, and a copy of it in a gateway for the rest of its time.
STORE_PART = 0.9


class Flight:
    """One execution, from the first asker to its landing."""

    __slots__ = ("carrier", "desk", "fingerprint", "fingerprints", "over", "riders")

    def __init__(self, desk: Desk, fingerprints: Fingerprints, fingerprint: bytes) -> None:
        self.desk = desk
        self.fingerprints = fingerprints  # by which it was made
        self.fingerprint = fingerprint
        self.carrier: Request | None = None  # None: not sent yet
        self.riders: dict[str, Request] | None = None  # all aboard, by key; None: the carrier's asker alone
        self.over = False


def is_queued(request: Request) -> bool:
    """Whether what will answer it has not gone to a worker."""
    flight = request.flight
    if not isinstance(flight, Flight):
        return request.waiting
    return flight.carrier is None or flight.carrier.waiting


class Flights:
    def __init__(
        self, waiters: Waiters, clock: Clock, memory: Memory | None, elsewhere: SharedAnswers | None
    ) -> None:
        """`elsewhere`: what other gateways remember."""
        self._waiters = waiters
        self._clock = clock
        self._memory = memory
        self._elsewhere = elsewhere
        self._by_fingerprint: dict[bytes, Flight] = {}
        self._adrift: dict[str, Request] = {}  # carriers whose own asker has left, by key
        if elsewhere is not None:
            elsewhere.on_looked_up = self._looked_up

    def __len__(self) -> int:
        return len(self._by_fingerprint)

    def find(self, key: str) -> Request | None:
        """The request that somebody waits for under this key, or that flies on for others."""
        return self._waiters.get(key) or self._adrift.get(key)

    # ---- boarding ----------------------------------------------------------------------------------------

    def enter(self, desk: Desk, request: Request, asker: Asker) -> Waiter:
        """Raises Refused where it would have to be executed and is not let in."""
        sharing = desk.sharing
        assert sharing is not None
        fingerprints = sharing.fingerprints
        fingerprint = fingerprints.of(request)
        if sharing.ttl and self._memory is not None:
            found = self._memory.get(fingerprint, request.arrival)
            if found is not None:
                waiter = self._waiters.add(request, asker)
                self._waiters.settle([self._again(sharing, request, found)])
                return waiter
        flight = self._by_fingerprint.get(fingerprint)
        if flight is not None:
            return self._join(flight, sharing, request, asker)
        flight = Flight(desk, fingerprints, fingerprint)
        if sharing.ttl:
            elsewhere = self._elsewhere
            if elsewhere is not None:
                if elsewhere.look_up(fingerprint, flight):
                    flight.riders = {}
                    self._by_fingerprint[fingerprint] = flight
                    return self._board(flight, request, asker)
                sharing.bypassed += 1
            else:
                sharing.misses += 1
        _let_in(desk, request)
        self._by_fingerprint[fingerprint] = flight
        if request.task:
            flight.riders = {}
            waiter = self._board(flight, request, asker)
        else:
            request.flight = flight
            waiter = self._waiters.add(request, asker)
        self._send(flight, request)
        return waiter

    def _board(self, flight: Flight, request: Request, asker: Asker) -> Waiter:
        assert flight.riders is not None
        request.flight = flight
        flight.riders[request.key] = request
        return self._waiters.add(request, asker)

    def _join(self, flight: Flight, sharing: Sharing, request: Request, asker: Asker) -> Waiter:
        carrier = flight.carrier
        if carrier is None:
            return self._board(flight, request, asker)  # counted when it has been looked up
        if sharing.ttl:
            sharing.misses += 1
        if flight.riders is None:
            flight.riders = {carrier.key: carrier}
        if not _is_before(request, carrier) or (sharing.sees_dispatch and not carrier.waiting):
            sharing.collapsed += 1
            return self._board(flight, request, asker)
        _let_in(flight.desk, request)
        waiter = self._board(flight, request, asker)
        self._adrift.pop(carrier.key, None)
        flight.desk.broker.withdraw(carrier)
        self._send(flight, request)
        return waiter

    def _send(self, flight: Flight, request: Request) -> None:
        if request.task:
            request = _copy(request)
            self._adrift[request.key] = request
        flight.carrier = request
        flight.desk.broker.publish(request)

    # ---- leaving -----------------------------------------------------------------------------------------

    def leave(self, request: Request) -> None:
        """Its asker has given up, or its time is over."""
        flight = request.flight
        assert isinstance(flight, Flight)
        riders = flight.riders
        if riders is not None:
            riders.pop(request.key, None)
        carrier = flight.carrier
        if riders:
            if request is carrier:
                self._adrift[request.key] = request
        elif not flight.over:
            self._end(flight)
            if carrier is not None:
                flight.desk.broker.withdraw(carrier)

    def _end(self, flight: Flight) -> None:
        """Nothing of it refers to anything else any more: it would wait for the cycle collector."""
        flight.over = True
        del self._by_fingerprint[flight.fingerprint]
        if flight.carrier is not None:
            self._adrift.pop(flight.carrier.key, None)
        flight.carrier = flight.riders = None

    # ---- landing -----------------------------------------------------------------------------------------

    def land(self, replies: Sequence[Reply]) -> list[Reply]:
        """The replies that askers are to have, for those that carriers got."""
        given: list[Reply] = []
        for reply in replies:
            flight = reply.request.flight
            if not isinstance(flight, Flight):
                given.append(reply)
            elif not flight.over:
                if reply.execution is not None:
                    self._landed(flight, reply, reply.execution, given)
                elif reply.request is flight.carrier:
                    self._failed(flight, reply, given)
        return given

    def _landed(self, flight: Flight, reply: Reply, execution: Execution, given: list[Reply]) -> None:
        carrier, riders = flight.carrier, flight.riders
        self._end(flight)
        self._remember(flight, reply.request, reply.output, execution.version)
        if riders is None:
            given.append(reply)
            return
        if carrier is not reply.request and carrier is not None:
            flight.desk.broker.withdraw(carrier)
        for rider in riders.values():
            own = execution if rider.arrival <= execution.started else _from_arrival(execution, rider)
            given.append(Reply(rider, Outcome.SUCCESS, reply.output, None, own))

    def _failed(self, flight: Flight, reply: Reply, given: list[Reply]) -> None:
        carrier, riders, failure = reply.request, flight.riders, reply.failure
        assert failure is not None
        if riders is None:
            self._end(flight)
            given.append(reply)
            return
        told = list(riders.values())
        if failure.code in ITS_OWN:
            told = [each for each in told if _has_no_more_time(each, carrier)]
        for rider in told:
            del riders[rider.key]
            given.append(Reply(rider, reply.outcome, failure=failure))
        self._adrift.pop(carrier.key, None)
        flight.carrier = None
        self._launch(flight, given)

    def _launch(self, flight: Flight, given: list[Reply]) -> None:
        """The most urgent aboard that is let in is the carrier; those before it are told why they are not."""
        riders, now = flight.riders, self._clock()
        assert riders is not None
        while riders:
            request = min(riders.values(), key=lambda each: (each.tier, each.expires))
            refused = flight.desk.admit(request, now)
            if refused is None:
                self._send(flight, request)
                return
            del riders[request.key]
            failure = Failure(refused.code, refused.message, retry_after=refused.retry_after)
            given.append(Reply(request, Outcome.FAILED, failure=failure))
        self._end(flight)

    # ---- remembering -------------------------------------------------------------------------------------

    def _remember(self, flight: Flight, request: Request, output: bytes, version: str) -> None:
        sharing = flight.desk.sharing
        assert sharing is not None
        fingerprint, fingerprints = flight.fingerprint, flight.fingerprints
        if version and version != fingerprints.version:
            sharing.learn(version)
            fingerprints = sharing.fingerprints
            fingerprint = fingerprints.of(request)
        if not sharing.ttl or self._memory is None:
            return
        now = self._clock()
        made_for = maker(request.tenant) if sharing.shared else NOBODY
        entry = Remembered(output, fingerprints.version, made_for, now + sharing.ttl)
        if self._memory.put(fingerprint, entry, now):
            sharing.stored += 1
            if self._elsewhere is not None:
                self._elsewhere.keep(fingerprint, made_for + output, sharing.ttl * STORE_PART)

    def _again(self, sharing: Sharing, request: Request, found: Remembered) -> Reply:
        """What another tenant's request has made looks like any other answer: only its own is said to be cached."""
        sharing.hits += 1
        if not sharing.shared or found.maker == maker(request.tenant):
            execution = Execution(
                WorkerId(""), 0, 0, request.arrival, 0.0, found.version, cached=True, counted=False
            )
        else:
            seconds = self._clock() - request.arrival
            execution = Execution(WorkerId(""), 0, 1, request.arrival, seconds, found.version, counted=False)
        return Reply(request, Outcome.SUCCESS, found.output, None, execution)

    def _looked_up(self, lookups: Sequence[Lookup], *, bypassed: bool) -> None:
        given: list[Reply] = []
        for flight, value in lookups:
            if not isinstance(flight, Flight) or flight.over:
                continue  # everyone has left meanwhile
            sharing, riders = flight.desk.sharing, flight.riders
            assert sharing is not None
            assert riders is not None
            if value is not None:
                now, version = self._clock(), flight.fingerprints.version
                expires = now + sharing.ttl * (1.0 - STORE_PART)
                found = Remembered(value[MAKER_BYTES:], version, value[:MAKER_BYTES], expires)
                if self._memory is not None:
                    self._memory.put(flight.fingerprint, found, now)
                self._end(flight)
                given += [self._again(sharing, request, found) for request in riders.values()]
                continue
            if bypassed:
                sharing.bypassed += len(riders)
            else:
                sharing.misses += len(riders)
            sharing.collapsed += len(riders) - 1
            self._launch(flight, given)
        if given:
            self._waiters.settle(given)


def _is_before(request: Request, carrier: Request) -> bool:
    return request.tier < carrier.tier or (
        request.tier == carrier.tier
        and (request.expires, request.deadline) < (carrier.expires, carrier.deadline)
    )


def _has_no_more_time(request: Request, carrier: Request) -> bool:
    return request.expires <= carrier.expires or request.deadline <= carrier.deadline


def _let_in(desk: Desk, request: Request) -> None:
    refused = desk.admit(request, request.arrival)
    if refused is not None:
        try:
            raise refused
        finally:
            del refused  # else it and this frame, which its traceback holds, wait for the collector


def _copy(request: Request) -> Request:
    return replace(request, key=f"{request.key}~", quota=None)


def _from_arrival(execution: Execution, rider: Request) -> Execution:
    """As one sees it that came while it was under way: no queue, and what was left of it."""
    left = execution.started + execution.seconds - rider.arrival
    return replace(execution, started=rider.arrival, seconds=max(0.0, left), rendered=None, counted=False)
