"""Who waits for which reply. The first reply is the answer; whatever comes later finds nobody waiting."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct

from penstock.errors import Draining
from penstock.ports import Asker
from penstock.runtime.wheel import Wheel
from penstock.types import Failure, Outcome, Reply, Request, has_own_limit

log = logging.getLogger("penstock.waiters")

CLIENT_LEFT = Failure("CLIENT_LEFT", "the client left before it was answered")
CANCELLED = Failure("CANCELLED", "cancelled by its asker")
# For those whom a server that stops leaves without an answer.
OUT_OF_TIME = Failure(
    Draining.code, "this server has stopped: the time that server.drain allows was over", retry_after=1.0
)

LEFT = Outcome.CANCELLED, CLIENT_LEFT
WITHDRAWN = Outcome.CANCELLED, CANCELLED


class Waiter(Struct, eq=False):
    """One asker, from acceptance to its one answer.

    Once settled it lets go of the request and the asker: the wheel may hold it until the deadline.
    """

    waiters: "Waiters"
    request: Request
    asker: Asker
    when: float
    settled: bool = False

    def give_up(self, ending: tuple[Outcome, Failure]) -> None:
        """End it now; what has not gone to a worker never goes. Nothing if it was answered already."""
        if not self.settled:
            self.waiters.end(self.request, ending)

    def left(self) -> None:
        self.give_up(LEFT)

    def withdraw(self) -> None:
        self.give_up(WITHDRAWN)

    def expire(self) -> None:
        if not self.settled:
            self.give_up((Outcome.EXPIRED, self.waiters.late(self.request)))


class Waiters:
    """Each under the ticket of its request: as a rule that is its key. One deadline wheel for all of them."""

    def __init__(
        self,
        wheel: Wheel,
        withdraw: Callable[[Request], None],
        is_loading: Callable[[Request], bool] = lambda _: False,
    ) -> None:
        """`is_loading`: whether the model of a request is, for the words to one that waited in vain."""
        self._wheel = wheel
        self._is_loading = is_loading
        self._withdraw = withdraw
        self.by_ticket: dict[object, Waiter] = {}
        self.on_settled: Callable[[Sequence[Reply]], None] | None = None
        self.on_empty: Callable[[], None] | None = None  # told when the last one is answered

    def __len__(self) -> int:
        return len(self.by_ticket)

    def add(self, request: Request, asker: Asker) -> Waiter:
        request.ticket = key = request.key  # `add_as`, spelt out for the usual case
        waiter = self.by_ticket[key] = Waiter(self, request, asker, request.deadline)
        self._wheel.add(waiter)
        return waiter

    def add_as(self, ticket: object, request: Request, asker: Asker) -> Waiter:
        """Under a ticket that nobody has. Unless that is its key, it is not found by its key."""
        request.ticket = ticket
        waiter = self.by_ticket[ticket] = Waiter(self, request, asker, request.deadline)
        self._wheel.add(waiter)
        return waiter

    def give_key(self, ticket: object) -> Request:
        """To whoever is there: its own key is its ticket from now on."""
        waiter = self.by_ticket.pop(ticket)
        request = waiter.request
        request.ticket = request.key
        self.by_ticket[request.key] = waiter
        return request

    def get(self, key: str) -> Request | None:
        """The request that somebody waits for under this key."""
        waiter = self.by_ticket.get(key)
        return None if waiter is None else waiter.request

    def find(self, request_id: str) -> Request | None:
        """By the asker's id; a search, for people."""
        requests = (waiter.request for waiter in self.by_ticket.values())
        return next((request for request in requests if request.request_id == request_id), None)

    def settle(self, replies: Sequence[Reply]) -> None:
        settled = []
        take = self.by_ticket.pop
        for reply in replies:
            request = reply.request
            waiter = take(request.ticket, None)
            if waiter is not None:
                if waiter.request is not request:
                    self.by_ticket[request.ticket] = waiter  # another's, that has its ticket by now
                    continue
                settled.append(reply)
                waiter.settled = True
                asker = waiter.asker
                del waiter.request, waiter.asker
                try:
                    asker.reply(reply)
                except Exception:
                    log.exception("an answer could not be given")  # and must not keep the others from theirs
        if settled and self.on_settled is not None:
            self.on_settled(settled)
        if not self.by_ticket and self.on_empty is not None:
            self.on_empty()

    @contextmanager
    def unreported(self) -> Iterator[list[Reply]]:
        """What is settled meanwhile is reported at the end: as much of it as is left in this list."""
        report, settled = self.on_settled, list[Reply]()
        self.on_settled = settled.extend
        try:
            yield settled
        finally:
            self.on_settled = report
            if settled and report is not None:
                report(settled)

    def take_back(self, waiter: Waiter) -> Request:
        """As if it had never been added: nobody is told. It must not be settled."""
        request = waiter.request
        waiter.settled = True
        self._withdraw(request)
        del self.by_ticket[request.ticket]
        del waiter.request, waiter.asker
        return request

    def end_all(self, failure: Failure) -> None:
        for waiter in list(self.by_ticket.values()):
            waiter.give_up((Outcome.FAILED, failure))

    def end(self, request: Request, ending: tuple[Outcome, Failure]) -> None:
        outcome, failure = ending
        self._withdraw(request)
        self.settle([Reply(request, outcome, failure=failure)])

    def late(self, request: Request) -> Failure:
        """Says which setting ended its wait."""
        seconds = request.deadline - request.arrival
        if has_own_limit(request):
            message = f"no answer within its timeout_ms, {seconds * 1e3:.0f}"
        else:
            message = f"no answer within the {round(seconds, 3):g} s that timeouts.request allows"
        if self._is_loading(request):
            message += ": the model is still loading"
        return Failure("DEADLINE_EXCEEDED", message)
