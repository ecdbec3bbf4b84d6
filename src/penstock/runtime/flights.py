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
- A request that nobody has joined is a flight by itself: it stands in its place in the memory, and knows it.
- The carrier is the request of one aboard (of a task a copy, since a task's input is let go at its end). It stays
  the carrier when its asker leaves.
- A failure is everyone's, unless it is the carrier's own: a deadline that passed, or was too short for the queue.
  Then those with no more time than the carrier are told, and the most urgent of the others is sent.
- Whoever is more urgent than the carrier (a better tier; in the same tier an earlier limit) takes its place, and
  the former carrier is withdrawn: a good tier never waits in a worse one's queue. Once the carrier is on a worker
  nobody can be faster, so then it only joins. Where that cannot be seen (the batcher is elsewhere) both may run.
- Of several carriers' answers the first counts; of their failures only the present one's.
"""

from collections.abc import Mapping, Sequence

from penstock.core.fingerprint import MAKER_BYTES, maker
from penstock.core.memory import Memory, Place, Remembered
from penstock.errors import Cancelled, ClientLeft, DeadlineExceeded, Overloaded
from penstock.ports import Asker, Clock
from penstock.runtime.desk import FEW, WINDOW, Desk, Sharing
from penstock.runtime.flight import Flight, copy_of, from_arrival, has_no_more_time, is_before
from penstock.runtime.shared_answers import Lookup, SharedAnswers
from penstock.runtime.waiters import Waiter, Waiters
from penstock.types import Execution, Failure, Outcome, Reply, Request, WorkerId

ITS_OWN = frozenset({DeadlineExceeded.code, Overloaded.code, Cancelled.code, ClientLeft.code})
NOBODY = bytes(MAKER_BYTES)
# An answer lives so long in the common store, and a copy of it in a gateway for the rest of its time.
STORE_PART = 0.9


class Flights:
    def __init__(
        self,
        desks: Mapping[str, Desk],
        waiters: Waiters,
        clock: Clock,
        memory: Memory,
        elsewhere: SharedAnswers | None,
    ) -> None:
        """`elsewhere`: what other gateways remember."""
        self._desks = desks
        self._waiters = waiters
        self._clock = clock
        self._memory = memory
        self._places = memory.places
        self._elsewhere = elsewhere
        self._adrift: dict[str, Request] = {}  # carriers whose own asker has left, by key
        if elsewhere is not None:
            elsewhere.on_looked_up = self._looked_up

    def find(self, key: str) -> Request | None:
        """The request that somebody waits for under this key, or that flies on for others."""
        return self._waiters.get(key) or self._adrift.get(key)

    # ---- boarding ----------------------------------------------------------------------------------------

    def enter(self, desk: Desk, request: Request, asker: Asker) -> Waiter:
        """Raises Refused where it would have to be executed and is not let in."""
        sharing = desk.sharing
        assert sharing is not None
        place = request.input, sharing.epoch, "" if sharing.shared else request.tenant, request.parameters
        places = self._places
        found = places.setdefault(place, request)  # its place, unless somebody was there before
        if found is not request:
            if type(found) is not tuple:
                return self._join(place, found, desk, request, asker)
            if found[3] > request.arrival:
                self._memory.used.add(found[4])
                waiter = self._waiters.add(request, asker)
                self._waiters.settle([self._again(sharing, request, found)])
                return waiter
            places[place] = request
        if sharing.ttl:
            elsewhere = self._elsewhere
            if elsewhere is None:
                sharing.misses += 1
            elif elsewhere.resting:
                sharing.bypassed += 1
            else:
                return self._look_up(elsewhere, desk, sharing, place, request, asker)
        refused = desk.admit(request, request.arrival)
        if refused is not None:
            del places[place]
            try:
                raise refused
            finally:
                del refused  # else it and this frame, which its traceback holds, wait for the collector
        if request.task:
            flight = places[place] = Flight(desk, place, sharing.version)
            waiter = self._board(flight, request, asker)
            self._send(flight, request)
            return waiter
        request.flight = place
        waiter = self._waiters.add(request, asker)
        desk.broker.publish(request)
        return waiter

    def _look_up(
        self,
        elsewhere: SharedAnswers,
        desk: Desk,
        sharing: Sharing,
        place: Place,
        request: Request,
        asker: Asker,
    ) -> Waiter:
        flight = self._places[place] = Flight(desk, place, sharing.version)
        flight.fingerprint = sharing.fingerprints.of(request)
        elsewhere.look_up(flight.fingerprint, flight)
        return self._board(flight, request, asker)

    def _board(self, flight: Flight, request: Request, asker: Asker) -> Waiter:
        request.flight = flight
        flight.riders[request.key] = request
        return self._waiters.add(request, asker)

    def _join(self, place: Place, found: object, desk: Desk, request: Request, asker: Asker) -> Waiter:
        sharing = desk.sharing
        assert sharing is not None
        if isinstance(found, Flight):
            flight = found
        else:
            assert isinstance(found, Request)
            flight = self._places[place] = found.flight = Flight(desk, place, sharing.version)
            flight.carrier = flight.riders[found.key] = found
        carrier = flight.carrier
        if carrier is None:
            return self._board(flight, request, asker)  # counted when it has been looked up
        if sharing.ttl:
            sharing.misses += 1
        if not is_before(request, carrier) or (sharing.sees_dispatch and not carrier.waiting):
            sharing.collapsed += 1
            return self._board(flight, request, asker)
        refused = desk.admit(request, request.arrival)
        if refused is not None:
            try:
                raise refused
            finally:
                del refused
        waiter = self._board(flight, request, asker)
        self._adrift.pop(carrier.key, None)
        desk.broker.withdraw(carrier)
        self._send(flight, request)
        return waiter

    def _send(self, flight: Flight, request: Request) -> None:
        if request.task:
            request = copy_of(request)
            self._adrift[request.key] = request
        flight.carrier = request
        flight.desk.broker.publish(request)

    # ---- leaving -----------------------------------------------------------------------------------------

    def leave(self, request: Request) -> None:
        """Its asker has given up, or its time is over."""
        flight = request.flight
        if not isinstance(flight, Flight):
            self._vacate(request)
            self._desks[request.model].broker.withdraw(request)
            return
        flight.riders.pop(request.key, None)
        carrier = flight.carrier
        if flight.riders:
            if request is carrier:
                self._adrift[request.key] = request
        elif not flight.over:
            self._end(flight)
            if carrier is not None:
                flight.desk.broker.withdraw(carrier)

    def _vacate(self, request: Request) -> None:
        """Of one that nobody has joined: its place is free again, unless it is another's by now."""
        if self._places.get(request.flight) is request:  # type: ignore[call-overload]
            del self._places[request.flight]

    def _end(self, flight: Flight) -> None:
        """Nothing of it refers to anything else any more: it would wait for the cycle collector."""
        flight.over = True
        if self._places.get(flight.place) is flight:
            del self._places[flight.place]
        if flight.carrier is not None:
            self._adrift.pop(flight.carrier.key, None)
        flight.carrier = None
        flight.riders = {}

    # ---- landing -----------------------------------------------------------------------------------------

    def land(self, replies: Sequence[Reply]) -> Sequence[Reply]:
        """The replies that askers are to have, for those that carriers got."""
        given: list[Reply] = []
        now, places, model = self._clock(), self._places, None
        for reply in replies:
            request, execution = reply.request, reply.execution
            flight = request.flight
            if type(flight) is tuple:  # the hot path: nobody has joined it
                given.append(reply)
                if model != request.model:
                    model = request.model
                    sharing = self._desks[model].sharing
                if execution is not None and sharing is not None:
                    sharing.landed = landed = sharing.landed + 1
                    if not landed % WINDOW:
                        sharing.weigh()
                    if (
                        not sharing.thin
                        or not landed % FEW
                        or (execution.version and execution.version != sharing.version)
                    ):
                        self._remember(request, flight, reply.output, execution.version, now)
                        continue
                found = places.pop(flight, None)
                if found is not request and found is not None:
                    places[flight] = found  # another's by now
            elif not isinstance(flight, Flight):
                given.append(reply)
            elif flight.over:
                continue
            elif execution is not None:
                self._landed(flight, reply, execution, now, given)
            elif request is flight.carrier:
                self._failed(flight, reply, given)
        return given

    def _landed(
        self, flight: Flight, reply: Reply, execution: Execution, now: float, given: list[Reply]
    ) -> None:
        carrier, riders = flight.carrier, flight.riders
        self._end(flight)
        kept = self._remember(reply.request, flight.place, reply.output, execution.version, now)
        if kept is not None and flight.fingerprint is not None and self._elsewhere is not None:
            self._tell(self._elsewhere, kept, flight, reply, execution.version)
        if carrier is not reply.request and carrier is not None:
            flight.desk.broker.withdraw(carrier)
        for rider in riders.values():
            own = execution if rider.arrival <= execution.started else from_arrival(execution, rider)
            given.append(Reply(rider, Outcome.SUCCESS, reply.output, None, own))

    def _failed(self, flight: Flight, reply: Reply, given: list[Reply]) -> None:
        carrier, riders, failure = reply.request, flight.riders, reply.failure
        assert failure is not None
        told = list(riders.values())
        if failure.code in ITS_OWN:
            told = [each for each in told if has_no_more_time(each, carrier)]
        for rider in told:
            del riders[rider.key]
            given.append(Reply(rider, reply.outcome, failure=failure))
        self._adrift.pop(carrier.key, None)
        flight.carrier = None
        self._launch(flight, given)

    def _launch(self, flight: Flight, given: list[Reply]) -> None:
        """The most urgent aboard that is let in is the carrier; those before it are told why they are not."""
        riders, now = flight.riders, self._clock()
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

    def _remember(
        self, request: Request, place: Place, output: bytes, version: str, now: float
    ) -> Sharing | None:
        """How it was kept, if it was. Under the version that made it, which may be news."""
        sharing = self._desks[request.model].sharing
        if sharing is not None:
            if version and version != sharing.version:
                sharing.learn(version)
                self._vacate(request)
                place = sharing.place(request)
            ttl = sharing.ttl
            if ttl and self._memory.put(place, output, sharing.version, request.tenant, now + ttl, now):
                sharing.stored += 1
                return sharing
        self._vacate(request)
        return None

    def _tell(
        self, elsewhere: SharedAnswers, sharing: Sharing, flight: Flight, reply: Reply, version: str
    ) -> None:
        """The other gateways."""
        fingerprint = flight.fingerprint
        if fingerprint is None or (version and version != flight.version):
            fingerprint = sharing.fingerprints.of(reply.request)
        made_for = maker(reply.request.tenant) if sharing.shared else NOBODY
        elsewhere.keep(fingerprint, made_for + reply.output, sharing.ttl * STORE_PART)

    def _again(self, sharing: Sharing, request: Request, found: Remembered) -> Reply:
        """What another tenant's request has made looks like any other answer: only its own is said to be cached."""
        output, version, made_for, _, _ = found
        sharing.hits += 1
        own = made_for == request.tenant or made_for == maker(request.tenant) if sharing.shared else True
        execution = Execution(WorkerId(""), 0, 0, request.arrival, 0.0, version, cached=True, counted=False)
        if not own:
            execution.batch_size, execution.cached = 1, False
            execution.seconds = self._clock() - request.arrival
        return Reply(request, Outcome.SUCCESS, output, None, execution)

    def _looked_up(self, lookups: Sequence[Lookup], *, bypassed: bool) -> None:
        given: list[Reply] = []
        now = self._clock()
        for flight, value in lookups:
            if not isinstance(flight, Flight) or flight.over:
                continue  # everyone has left meanwhile
            sharing, riders = flight.desk.sharing, flight.riders
            assert sharing is not None
            if value is not None:
                output, made_for = value[MAKER_BYTES:], value[:MAKER_BYTES]
                expires = now + sharing.ttl * (1.0 - STORE_PART)
                self._end(flight)
                self._memory.put(flight.place, output, flight.version, made_for, expires, now)
                found = output, flight.version, made_for, expires, flight.place
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
