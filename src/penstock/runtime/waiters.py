"""Who waits for which reply. The first reply is the answer; whatever comes later finds nobody waiting."""

import asyncio
from collections.abc import Callable, Sequence

from penstock.ports import Watch
from penstock.runtime.wheel import Wheel
from penstock.types import Failure, Outcome, Reply, Request

CLIENT_LEFT = Failure("CLIENT_LEFT", "the client left before it was answered")
CANCELLED = Failure("CANCELLED", "cancelled by its asker")
TOO_LATE = Failure("DEADLINE_EXCEEDED", "the deadline passed before the backend answered")

UNATTENDED = 0.25  # seconds before a client is watched; a departed one is noticed within 1 s (SPEC C4)

LEFT = Outcome.CANCELLED, CLIENT_LEFT
WITHDRAWN = Outcome.CANCELLED, CANCELLED
LATE = Outcome.EXPIRED, TOO_LATE


class Waiter:
    """One asker, from acceptance to its one answer.

    Its place on the wheel has two stops: after a quarter of a second it begins to watch whether the client is
    still there, and at the deadline it ends. Watching costs the server too much for requests that are answered in
    milliseconds; and a watch that begins late still tells of a client that left early.

    Once settled it lets go of the request and the reply: the wheel may hold it until the deadline.
    """

    __slots__ = ("_waiters", "_watching", "future", "request", "settled", "watch", "when")

    def __init__(self, waiters: "Waiters", request: Request, future: "asyncio.Future[Reply]") -> None:
        self._waiters = waiters
        self._watching: Watch | None = None
        self.request = request
        self.future = future
        self.watch: Callable[[], Watch] | None = None
        self.when = min(request.deadline, request.arrival + UNATTENDED)
        self.settled = False

    def settle(self, reply: Reply) -> None:
        self.settled = True
        self.future.set_result(reply)
        if self._watching is not None:
            self._watching.cancel()
        del self.request, self.future, self.watch, self._watching

    def give_up(self, ending: tuple[Outcome, Failure]) -> None:
        """End it now; what has not gone to a worker never goes. Nothing if it was answered already."""
        if not self.settled:
            self._waiters.end(self.request, ending)

    def expire(self) -> None:
        deadline = self.request.deadline
        if self.when >= deadline:
            self.give_up(LATE)
            return
        if self.watch is not None:
            self._watching = self.watch()
            self._watching.add_done_callback(lambda _: self.give_up(LEFT))
        self.when = deadline
        self._waiters.look_again(self)


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
        self._wheel.add(waiter)
        return waiter

    def look_again(self, waiter: Waiter) -> None:
        self._wheel.add(waiter)

    def find(self, request_id: str) -> Request | None:
        """By the asker's id; a search, for people."""
        requests = (waiter.request for waiter in self._by_key.values())
        return next((request for request in requests if request.request_id == request_id), None)

    def settle(self, replies: Sequence[Reply]) -> None:
        settled = []
        for reply in replies:
            waiter = self._by_key.pop(reply.request.key, None)
            if waiter is not None:
                waiter.settle(reply)
                settled.append(reply)
        if settled and self.on_settled is not None:
            self.on_settled(settled)
        if not self._by_key and self.on_empty is not None:
            self.on_empty()

    def end_all(self, failure: Failure) -> None:
        for waiter in list(self._by_key.values()):
            waiter.give_up((Outcome.FAILED, failure))

    def end(self, request: Request, ending: tuple[Outcome, Failure]) -> None:
        outcome, failure = ending
        self._withdraw(request)
        self.settle([Reply(request, outcome, failure=failure)])
