"""The askers that wait for a reply at one gateway. Each gateway has one `Waiters`. Whatever lets a request in adds
a waiter (the gateway itself, flights, reservations), and replies and departures settle it. The first reply to a
request is its answer. A later reply is ignored."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct

from penstock.errors import Draining
from penstock.ports import Asker
from penstock.runtime.collapse.flight import is_queued
from penstock.runtime.collapse.passenger import Passenger
from penstock.runtime.wheel import Wheel
from penstock.types import Failure, Outcome, Reply, Request, has_own_limit

log = logging.getLogger("penstock.waiters")

CLIENT_LEFT = Failure("CLIENT_LEFT", "the client left before it was answered")
CANCELLED = Failure("CANCELLED", "cancelled by its asker")
# The answer to those who still wait when a server stops.
OUT_OF_TIME = Failure(
    Draining.code, "this server has stopped: the time that server.drain allows was over", retry_after=1.0
)

LEFT = Outcome.CANCELLED, CLIENT_LEFT
WITHDRAWN = Outcome.CANCELLED, CANCELLED


class Waiter(Struct, eq=False):
    """One asker and its request, until its one answer.

    Once settled it holds neither of them any more, because the wheel may hold the waiter until the deadline.
    """

    waiters: "Waiters"
    request: Passenger
    asker: Asker
    when: float
    settled: bool = False

    def is_queued(self) -> bool:
        return is_queued(self.request)

    def end(self, ending: tuple[Outcome, Failure]) -> None:
        """Answer the asker with this ending now. A request that has not gone to a worker never goes. Does nothing
        if the asker was answered already."""
        if not self.settled:
            self.waiters.end(self.request, ending)

    def left(self) -> None:
        self.end(LEFT)

    def withdraw(self) -> None:
        self.end(WITHDRAWN)

    def expire(self) -> None:
        if not self.settled:
            self.end((Outcome.EXPIRED, self.waiters.late(self.request)))


class Waiters:
    """All waiters, each under the key of its request. One wheel has the deadlines of all."""

    def __init__(
        self,
        wheel: Wheel,
        withdraw: Callable[[Passenger], None],
        is_loading: Callable[[Request], bool] = lambda _: False,
        settled: Callable[[Sequence[Reply]], None] = lambda _: None,
    ) -> None:
        """`withdraw`: takes a request back that nobody waits for any more. `is_loading`: says whether a request's
        model is still loading; the message of a missed deadline mentions it. `settled` is called with the replies
        that somebody waited for."""
        self._wheel = wheel
        self._is_loading = is_loading
        self._withdraw = withdraw
        self._settled = settled
        self._waiters: dict[str, Waiter] = {}
        # Set when the last waiter is answered. None: nobody waits for that.
        self._empty: asyncio.Event | None = None

    def __len__(self) -> int:
        return len(self._waiters)

    def add(self, request: Passenger, asker: Asker) -> Waiter:
        """Let an asker wait for the reply to a request, until its deadline."""
        waiter = self._waiters[request.key] = Waiter(self, request, asker, request.deadline)
        self._wheel.add(waiter)
        return waiter

    def get(self, key: str) -> Passenger | None:
        """The request that somebody waits for under this key."""
        waiter = self._waiters.get(key)
        return None if waiter is None else waiter.request

    def tenants(self) -> Iterator[str]:
        """The tenant of each request that waits. This goes through all of them."""
        return (waiter.request.tenant for waiter in self._waiters.values())

    def find(self, request_id: str) -> Passenger | None:
        """Finds a request by the id that its asker gave it. It looks at every waiter, so only the admin plane may
        call it."""
        requests = (waiter.request for waiter in self._waiters.values())
        return next((request for request in requests if request.request_id == request_id), None)

    def settle(self, replies: Sequence[Reply]) -> None:
        """Give each reply to whoever waits for it."""
        settled = []
        take = self._waiters.pop
        for reply in replies:
            waiter = take(reply.request.key, None)
            if waiter is not None:
                settled.append(reply)
                waiter.settled = True
                asker = waiter.asker
                del waiter.request, waiter.asker
                try:
                    asker.reply(reply)
                except Exception:
                    # If one asker fails, the others must still get their answers.
                    log.exception("an answer could not be given")
        if settled:
            self._settled(settled)
        if not self._waiters and self._empty is not None:
            self._empty.set()

    async def none_left(self) -> None:
        """Wait until every waiter is answered."""
        if self._waiters:
            self._empty = asyncio.Event()
            await self._empty.wait()

    @contextmanager
    def unreported(self) -> Iterator[list[Reply]]:
        """While this context is open, settled replies are collected in the list and not reported. At the end, the
        replies still in the list are reported. The caller may take replies out."""
        report, settled = self._settled, list[Reply]()
        self._settled = settled.extend
        try:
            yield settled
        finally:
            self._settled = report
            if settled:
                report(settled)

    def take_back(self, waiter: Waiter) -> Passenger:
        """Take a waiter back as if it had never been added: nobody is told. It must not be settled."""
        request = waiter.request
        waiter.settled = True
        self._withdraw(request)
        del self._waiters[request.key]
        del waiter.request, waiter.asker
        return request

    def end_all(self, failure: Failure) -> None:
        """Answer everyone who waits with this failure."""
        for waiter in list(self._waiters.values()):
            waiter.end((Outcome.FAILED, failure))

    def end(self, request: Passenger, ending: tuple[Outcome, Failure]) -> None:
        """Take a request back, and answer its asker with this ending."""
        outcome, failure = ending
        self._withdraw(request)
        self.settle([Reply(request, outcome, failure=failure)])

    def late(self, request: Request) -> Failure:
        """The failure of a request whose time is over. It says which setting ended its wait."""
        seconds = request.deadline - request.arrival
        if has_own_limit(request):
            message = f"no answer within its timeout_ms, {seconds * 1e3:.0f}"
        else:
            message = f"no answer within the {round(seconds, 3):g} s that timeouts.request allows"
        if self._is_loading(request):
            message += ": the model is still loading"
        return Failure("DEADLINE_EXCEEDED", message)
