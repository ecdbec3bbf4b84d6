"""Identical requests to a deterministic model, executed once and answered each. The gateway hands in requests for
such a model (`enter`), and in one process its reservations hand in tasks (`enter_at_place`). The gateway passes the
replies through (`land`), and tells who has left (`leave`).

    asked ──remembered──► answered at once
      │ else
      ├──the same is on its way──► joins that flight
      └──► a flight of its own ──looked up elsewhere?──► carrier sent ──► landed: everyone aboard has the output
                                                            ▲    │ the carrier's own end: too late, refused
                                                            └────┘ the next one aboard is the carrier

Rules
- Each request aboard has a waiter, a deadline and a quota of its own, and leaves when it likes. Nothing is
  withdrawn while somebody is aboard. When the last one leaves, the carrier is withdrawn.
- A request that nobody has joined needs no `Flight`. As long as nothing else looks like it, it is found by its
  glance (a few bytes of its input). Otherwise it stands in its place in the memory.
- The carrier is the request that is executed: one of those aboard (of a task a copy, since a task's input is let go
  at its end). It stays the carrier when its asker leaves.
- A failure is everyone's, unless it is the carrier's own: a deadline that passed, or was too short for the queue.
  Then those with no more time than the carrier are told the failure, and the most urgent of the others is sent.
- A request that is more urgent than the carrier (a better tier; in the same tier an earlier limit) becomes the
  carrier, and the former one is withdrawn: a good tier never waits in a worse one's queue. Once the carrier is on a
  worker nobody can be faster, so a new request only joins. Where that cannot be seen (the batcher is elsewhere)
  both may run.
- Of several carriers' answers the first counts; of their failures only that of the present carrier.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby

from penstock.core.places import HEAD, TAIL, Glance, Place
from penstock.errors import Cancelled, ClientLeft, DeadlineExceeded, Overloaded, Refused, about
from penstock.ports import Asker, Clock
from penstock.runtime.collapse.flight import (
    AnswerMemory,
    Flight,
    copy_of,
    from_arrival,
    has_no_more_time,
    is_before,
)
from penstock.runtime.collapse.passenger import Passenger
from penstock.runtime.collapse.recall import Recall
from penstock.runtime.collapse.shared_answers import Lookup, SharedAnswers
from penstock.runtime.collapse.sharing import Sharing
from penstock.runtime.desk import Desk
from penstock.runtime.tenant import release
from penstock.runtime.waiters import Waiter, Waiters
from penstock.types import Execution, Failure, Outcome, Reply

# The codes of failures that are the carrier's own.
ITS_OWN = frozenset({DeadlineExceeded.code, Overloaded.code, Cancelled.code, ClientLeft.code})


class Flights:
    def __init__(
        self,
        desks: Mapping[str, Desk],
        waiters: Waiters,
        clock: Clock,
        memory: AnswerMemory,
        elsewhere: SharedAnswers[Flight] | None,
    ) -> None:
        """`elsewhere`: the store of answers that all gateways share; None if there is none."""
        self._desks = desks
        self._waiters = waiters
        self._clock = clock
        self._places = memory.places
        self._recall = Recall(memory, elsewhere, clock)
        self._elsewhere = elsewhere
        self._alone: dict[Glance, Passenger] = {}  # requests that nothing else looks like, by their glances
        self._adrift: dict[str, Passenger] = {}  # carriers whose own asker has left, by key
        if elsewhere is not None:
            elsewhere.on_looked_up = self._looked_up

    def carrier(self, key: str) -> Passenger | None:
        """The carrier with this key whose own asker has left, so that it is executed for others only."""
        return self._adrift.get(key)

    # ---- boarding ----------------------------------------------------------------------------------------

    def enter(self, desk: Desk, sharing: Sharing, request: Passenger, asker: Asker) -> Waiter:
        """Take a request in: it is answered from memory, joins a flight, or is executed. Raises Refused if it would
        have to be executed and is not let in."""
        seen = request.input
        look = seen[HEAD] + seen[TAIL]  # `glance`, spelt out
        if self._elsewhere is not None or look in self._places.glances or look in self._alone:
            return self.enter_at_place(desk, sharing, request, asker)
        if sharing.ttl:
            sharing.misses += 1
        refused = desk.admit(request, request.arrival)  # `_let_in`, spelt out for the usual case
        if refused is not None:
            try:
                raise _refused(request, refused)
            finally:
                del refused
        request.epoch, request.flight = sharing.epoch, look
        self._alone[look] = request
        waiter = self._waiters.add(request, asker)
        desk.broker.publish(request)
        return waiter

    def enter_at_place(self, desk: Desk, sharing: Sharing, request: Passenger, asker: Asker) -> Waiter:
        """Take in a request that something else looks like, or whose answer is to be looked up."""
        request.epoch = sharing.epoch
        place, places = sharing.place(request), self._places
        alone = self._alone.pop(place[4], None)
        if alone is not None:
            self._give_place(alone)
        found = places.get(place)
        if isinstance(found, tuple):
            if self._recall.still_valid(request, found):
                waiter = self._waiters.add(request, asker)
                self._waiters.settle([self._recall.reply(sharing, request, found)])
                return waiter
        elif found is not None:
            return self._join(place, found, desk, sharing, request, asker)
        if sharing.ttl:
            elsewhere = self._elsewhere
            if elsewhere is None:
                sharing.misses += 1
            elif elsewhere.resting:
                sharing.bypassed += 1
            else:
                return self._look_up(elsewhere, desk, sharing, place, request, asker)
        _let_in(desk, request)
        if request.task:
            flight = Flight(desk, place, sharing.version)
            places.put(place, flight)
            waiter = self._board(flight, request, asker)
            self._send(flight, request)
            return waiter
        request.flight = place
        places.put(place, request)
        waiter = self._waiters.add(request, asker)
        desk.broker.publish(request)
        return waiter

    def _give_place(self, alone: Passenger) -> None:
        """Put a request into its place, because another one now looks like it."""
        alone.flight = None
        sharing = self._desks[alone.model].sharing
        if sharing is not None:
            place = sharing.place(alone)
            # The place may hold an answer already, for a request whose asker had left.
            if self._places.get(place) is None:
                alone.flight = place
                self._places.put(place, alone)

    def _look_up(
        self,
        elsewhere: SharedAnswers[Flight],
        desk: Desk,
        sharing: Sharing,
        place: Place,
        request: Passenger,
        asker: Asker,
    ) -> Waiter:
        flight = Flight(desk, place, sharing.version)
        self._places.put(place, flight)
        flight.fingerprint = sharing.fingerprints.of(request)
        elsewhere.look_up(flight.fingerprint, flight)
        return self._board(flight, request, asker)

    def _board(self, flight: Flight, request: Passenger, asker: Asker) -> Waiter:
        request.flight = flight
        flight.riders[request.key] = request
        return self._waiters.add(request, asker)

    def _join(
        self,
        place: Place,
        found: Flight | Passenger,
        desk: Desk,
        sharing: Sharing,
        request: Passenger,
        asker: Asker,
    ) -> Waiter:
        if isinstance(found, Flight):
            flight = found
        else:
            flight = found.flight = Flight(desk, place, sharing.version)
            self._places.put(place, flight)
            flight.carrier = flight.riders[found.key] = found
        carrier = flight.carrier
        if carrier is None:
            # Whether the request is a hit or a miss is counted when the answer has been looked up.
            return self._board(flight, request, asker)
        if sharing.ttl:
            sharing.misses += 1
        if not is_before(request, carrier) or (sharing.sees_dispatch and not carrier.waiting):
            sharing.collapsed += 1
            return self._board(flight, request, asker)
        _let_in(desk, request)
        waiter = self._board(flight, request, asker)
        self._adrift.pop(carrier.key, None)
        desk.broker.withdraw(carrier)
        self._send(flight, request)
        return waiter

    def _send(self, flight: Flight, request: Passenger) -> None:
        if request.task:
            request = copy_of(request)
            self._adrift[request.key] = request
        flight.carrier = request
        flight.desk.broker.publish(request)

    # ---- leaving -----------------------------------------------------------------------------------------

    def leave(self, request: Passenger) -> None:
        """Let a request leave its flight, because its asker has left or its time is over."""
        flight = request.flight
        if not isinstance(flight, Flight):
            self._stand_aside(request)
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

    def _stand_aside(self, request: Passenger) -> None:
        """Take a request out of its place, so that nobody finds it to join it."""
        flight, request.flight = request.flight, None
        if isinstance(flight, bytes):
            del self._alone[flight]
        elif isinstance(flight, tuple):
            self._places.remove(flight, request)

    def _end(self, flight: Flight) -> None:
        """End a flight, and clear its references: otherwise it would wait for the cycle collector."""
        flight.over = True
        self._places.remove(flight.place, flight)
        if flight.carrier is not None:
            self._adrift.pop(flight.carrier.key, None)
        flight.carrier = None
        flight.riders = {}

    # ---- landing -----------------------------------------------------------------------------------------

    def land(self, replies: Sequence[Reply]) -> Sequence[Reply]:
        """Returns the replies for all askers, made from the replies that carriers got."""
        alone: list[Reply] = []
        given: list[Reply] = []
        for reply in replies:
            request = reply.request
            assert isinstance(request, Passenger)  # what comes back is what was sent
            flight = request.flight
            if isinstance(flight, bytes):  # the usual case: nothing looked like it
                request.flight = None
                del self._alone[flight]
                alone.append(reply)
            elif not isinstance(flight, Flight):
                self._stand_aside(request)
                alone.append(reply)
            elif flight.over:
                continue
            elif reply.execution is not None:
                self._landed(flight, request, reply.output, reply.execution, given)
            elif request is flight.carrier:
                self._failed(flight, request, reply, given)
        self._landed_alone(alone)
        return alone + given if given else alone

    def _landed_alone(self, replies: Sequence[Reply]) -> None:
        """Take in the replies of requests that nobody had joined. Some of the answers are remembered."""
        if not replies:
            return
        execution = replies[0].execution
        # The replies are of several batches, which are taken one after the other.
        if execution is not replies[-1].execution:
            for _, batch in groupby(replies, lambda reply: id(reply.execution)):
                self._landed_alone(list(batch))
            return
        sharing = self._desks[replies[0].request.model].sharing
        if execution is None or sharing is None:
            return
        if execution.version:
            sharing.learn(execution.version)
        self._recall.keep_some(sharing, replies, execution.version)

    def _landed(
        self, flight: Flight, request: Passenger, output: bytes, execution: Execution, given: list[Reply]
    ) -> None:
        carrier, riders = flight.carrier, flight.riders
        self._end(flight)
        sharing = self._desks[request.model].sharing
        if sharing is not None:
            if execution.version:
                sharing.learn(execution.version)
            self._recall.keep_and_tell(sharing, flight, request, output, execution.version)
        if carrier is not request and carrier is not None:
            flight.desk.broker.withdraw(carrier)
        for rider in riders.values():
            own = execution if rider.arrival <= execution.started else from_arrival(execution, rider)
            given.append(Reply(rider, Outcome.SUCCESS, output, None, own))

    def _failed(self, flight: Flight, carrier: Passenger, reply: Reply, given: list[Reply]) -> None:
        riders, failure = flight.riders, reply.failure
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
        """Send the most urgent request aboard as the carrier. If it is not let in, it is told why, and the next one
        is tried."""
        riders, now = flight.riders, self._clock()
        while riders:
            request = min(riders.values(), key=lambda each: (each.tier, each.expires))
            refused = flight.desk.admit(request, now)
            if refused is None:
                self._send(flight, request)
                return
            del riders[request.key]
            given.append(Reply(request, Outcome.FAILED, failure=Failure.of(refused)))
        self._end(flight)

    # ---- what others remember -----------------------------------------------------------------------------

    def _looked_up(self, lookups: Sequence[Lookup[Flight]], *, bypassed: bool) -> None:
        """Land the flights whose answers were found in the shared store, and send the others. `bypassed`: the store
        was not asked."""
        given: list[Reply] = []
        for flight, value in lookups:
            if flight.over:
                continue  # everyone has left meanwhile
            sharing, riders = flight.desk.sharing, flight.riders
            assert sharing is not None
            if value is not None:
                self._end(flight)
                found = self._recall.take_over(sharing, flight, value)
                given += [self._recall.reply(sharing, request, found) for request in riders.values()]
                continue
            if bypassed:
                sharing.bypassed += len(riders)
            else:
                sharing.misses += len(riders)
            sharing.collapsed += len(riders) - 1
            self._launch(flight, given)
        if given:
            self._waiters.settle(given)


def _let_in(desk: Desk, request: Passenger) -> None:
    refused = desk.admit(request, request.arrival)
    if refused is not None:
        try:
            raise _refused(request, refused)
        finally:
            del refused  # else the error and this frame, which its traceback holds, wait for the collector


def _refused(request: Passenger, refused: Refused) -> Refused:
    """Give the request's quota back, and return the refusal with its model and tenant."""
    release(request, request.arrival, refused=True)
    return about(refused, request.model, request.tenant)
