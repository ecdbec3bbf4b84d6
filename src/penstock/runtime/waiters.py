"""Who waits for which reply. The first reply is the answer; whatever comes later finds nobody waiting."""

import asyncio
from collections.abc import Callable, Sequence

from penstock.runtime.wheel import Wheel
from penstock.types import Failure, Outcome, Reply, Request

CLIENT_LEFT = Failure("CLIENT_LEFT", "the client left before it was answered")
CANCELLED = Failure("CANCELLED", "cancelled by its asker")
TOO_LATE = Failure("DEADLINE_EXCEEDED", "the deadline passed before the backend answered")

LEFT = Outcome.CANCELLED, CLIENT_LEFT
WITHDRAWN = Outcome.CANCELLED, CANCELLED
LATE = Outcome.EXPIRED, TOO_LATE


class Waiter:
    """One asker, from acceptance to its one answer."""

    __slots__ = ("_waiters", "future", "request")

    def __init__(self, waiters: "Waiters", request: Request, future: "asyncio.Future[Reply]") -> None:
        self._waiters = waiters
        self.request = request
        self.future = future

    def give_up(self, ending: tuple[Outcome, Failure]) -> bool:
        """End it now; what has not gone to a worker never goes. False if it was answered already."""
        if self.future.done():
            return False
        self._waiters.end(self.request, ending)
        return True

    def client_left(self) -> None:
        self.give_up(LEFT)

    def expire(self) -> None:
        self.give_up(LATE)


class Waiters:
    """By key; one deadline wheel for all of them."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, wheel: Wheel, withdraw: Callable[[Request], None]
    ) -> None:
        self._loop = loop
        self._wheel = wheel
        self._withdraw = withdraw
        self._by_key: dict[str, Waiter] = {}
        self.on_settled: Callable[[Sequence[Reply]], None] | None = None
        self.on_empty: Callable[[], None] | None = None  # told when the last one is answered

    def __len__(self) -> int:
        return len(self._by_key)

    def add(self, request: Request) -> Waiter:
        waiter = self._by_key[request.key] = Waiter(self, request, self._loop.create_future())
        self._wheel.add(request.deadline, waiter)
        return waiter

    def find(self, request_id: str) -> Request | None:
        """By the asker's id; a search, for people."""
        requests = (waiter.request for waiter in self._by_key.values())
        return next((request for request in requests if request.request_id == request_id), None)

    def settle(self, replies: Sequence[Reply]) -> None:
        settled = []
        for reply in replies:
            waiter = self._by_key.pop(reply.request.key, None)
            if waiter is not None:
                waiter.future.set_result(reply)
                settled.append(reply)
        if settled and self.on_settled is not None:
            self.on_settled(settled)
        if not self._by_key and self.on_empty is not None:
            self.on_empty()

    def end(self, request: Request, ending: tuple[Outcome, Failure]) -> None:
        outcome, failure = ending
        self._withdraw(request)
        self.settle([Reply(request, outcome, failure=failure)])
