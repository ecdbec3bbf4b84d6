"""Who waits for which reply. The first reply is the answer; whatever comes later finds nobody waiting."""

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
# Told to those whom a server that stops leaves without an answer.
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
    request: Passenger
    asker: Asker
    when: float
    settled: bool = False

    def is_queued(self) -> bool:
        return is_queued(self.request)

    def give_up(self, ending: tuple[Outcome, Failure]) -> None:
        """End it now; a request that has not gone to a worker never goes. Does nothing if it was answered
        already."""
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
    """All waiters, each under the key of its request. One deadline wheel for all of them."""

    def __init__(
        self,
        wheel: Wheel,
        withdraw: Callable[[Passenger], None],
        is_loading: Callable[[Request], bool] = lambda _: False,
        settled: Callable[[Sequence[Reply]], None] = lambda _: None,
    ) -> None:
        """`is_loading`: whether the model of a request is loading, for the words to one that waited in vain.
        `settled`: told of replies that were somebody's answers."""
        self._wheel = wheel
        self._is_loading = is_loading
        self._withdraw = withdraw
        self._settled = settled
        self._waiters: dict[str, Waiter] = {}
        self._empty: asyncio.Event | None = None  # set when the last one is answered

    def __len__(self) -> int:
        return len(self._waiters)

    def add(self, request: Passenger, asker: Asker) -> Waiter:
        waiter = self._waiters[request.key] = Waiter(self, request, asker, request.deadline)
        self._wheel.add(waiter)
        return waiter

    def get(self, key: str) -> Passenger | None:
        """The request that somebody waits for under this key."""
        waiter = self._waiters.get(key)
        return None if waiter is None else waiter.request

    def tenants(self) -> Iterator[str]:
        """Of each waiter, whose request it is. It goes through all of them."""
        return (waiter.request.tenant for waiter in self._waiters.values())

    def find(self, request_id: str) -> Passenger | None:
        """The request with this id of its asker. It searches, so it is for people only."""
        requests = (waiter.request for waiter in self._waiters.values())
        return next((request for request in requests if request.request_id == request_id), None)

    def settle(self, replies: Sequence[Reply]) -> None:
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
                    # One that fails must not keep the others from their answers.
                    log.exception("an answer could not be given")
        if settled:
            self._settled(settled)
        if not self._waiters and self._empty is not None:
            self._empty.set()

    async def none_left(self) -> None:
        """Return when the last one is answered."""
        if self._waiters:
            self._empty = asyncio.Event()
            await self._empty.wait()

    @contextmanager
    def unreported(self) -> Iterator[list[Reply]]:
        """Report what is settled meanwhile only at the end, and as much of it as is left in this list."""
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
        for waiter in list(self._waiters.values()):
            waiter.give_up((Outcome.FAILED, failure))

    def end(self, request: Passenger, ending: tuple[Outcome, Failure]) -> None:
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
