"""A request that was understood and counted against its tenant's quota, and of which nothing is started yet.

The gateway makes one for each task, and for each request with an Idempotency-Key. The store that records the task
or the key then enters it.

reserve ──► record (a task, a key) ──► enter ──► commit: the end of the request gives its quota back
                │ refused                │ refused
                └────────────────────────┴────► roll back: the quota is given back now

If nobody will tell of the request's end, `commit` gives the quota back at once.
"""

from penstock.errors import Draining, Overloaded, StoreDown, about
from penstock.ports import Asker, Clock
from penstock.runtime.collapse.flights import Flights
from penstock.runtime.collapse.passenger import Passenger
from penstock.runtime.desk import Desk
from penstock.runtime.tenant import release
from penstock.runtime.waiters import Waiter, Waiters
from penstock.types import Reply

# Codes of failures that are the server's fault: requests that end so do not count against a quota.
NOT_ITS_FAULT = frozenset({Overloaded.code, Draining.code, StoreDown.code})


class Reserved:
    """Implements `penstock.ports.Reservation`."""

    __slots__ = ("_clock", "_desk", "_flights", "_is_admitted", "_waiters", "_waits", "in_flight", "request")

    def __init__(
        self,
        request: Passenger,
        desk: Desk,
        waiters: Waiters,
        clock: Clock,
        *,
        is_admitted: bool = False,
        in_flight: bool = False,
        flights: Flights | None = None,
    ) -> None:
        """`is_admitted`: the desk was asked whether there is room. `in_flight`: the tenant's quota counts the
        request until it is over, so its end must be told. `flights`: where it may share an execution, if its model
        allows that."""
        self.request = request
        self.in_flight = in_flight
        self._desk = desk
        self._waiters = waiters
        self._clock = clock
        self._flights = flights
        self._is_admitted = is_admitted
        self._waits = False  # whether it has had a waiter: the end of that gives the quota back

    # ---- for whoever records it ----------------------------------------------------------------------------

    @property
    def waiting(self) -> bool:
        return self._waiters.get(self.request.key) is not None

    def admit(self) -> None:
        if self._is_admitted:
            return
        refused = self._desk.admit(self.request, self.request.arrival)
        if refused is not None:
            try:
                raise about(refused, self.request.model, self.request.tenant)
            finally:
                # The refusal would keep this frame, which its traceback holds, until the cycle collector comes.
                del refused
        self._is_admitted = True

    def enter(self, asker: Asker) -> Waiter:
        sharing = self._desk.sharing
        if self._flights is not None and sharing is not None:
            self._waits = True
            return self._flights.enter_at_place(self._desk, sharing, self.request, asker)
        self.admit()
        waiter = self.wait(asker)
        self._desk.broker.publish(self.request)
        return waiter

    def wait(self, asker: Asker) -> Waiter:
        self._waits = True
        return self._waiters.add(self.request, asker)

    def answer(self, reply: Reply) -> None:
        self._waiters.settle([reply])

    def backlog_seconds(self) -> float:
        return self._desk.backlog_seconds()

    def over(self, code: str) -> None:
        release(self.request, self._clock(), refused=code in NOT_ITS_FAULT)

    # ---- for whoever reserved it ---------------------------------------------------------------------------

    def commit(self) -> None:
        """Note that the request is on its way, or that another request answers it. If nothing will tell of its end,
        it no longer counts as in flight from now on."""
        if not self._waits and not self.in_flight:
            release(self.request, self._clock(), refused=False)

    def roll_back(self, *, counted: bool = False) -> None:
        """Give the quota back, since the request was refused. `counted`: it still counts as a request of the
        minute."""
        if not self._waits:
            release(self.request, self._clock(), refused=not counted)
