"""One who asks with an Idempotency-Key, at the door of the gateway (`penstock.idempotency.Entry`)."""

from typing import TYPE_CHECKING

from penstock.ports import Asker
from penstock.runtime.collapse.passenger import Passenger
from penstock.runtime.waiters import Waiter, Waiters
from penstock.types import Reply

if TYPE_CHECKING:
    from penstock.runtime.gateway import Desk


class Entry:
    __slots__ = ("_desk", "_waiters", "request", "waits")

    def __init__(self, request: Passenger, desk: "Desk", waiters: Waiters) -> None:
        self.request = request
        self._desk = desk
        self._waiters = waiters
        self.waits = False  # it has a waiter, or had one: its end releases its quota

    @property
    def waiting(self) -> bool:
        return self._waiters.get(self.request.key) is not None

    def admit(self) -> None:
        refused = self._desk.admit(self.request, self.request.arrival)
        if refused is not None:
            refused.model, refused.tenant = self.request.model, self.request.tenant
            raise refused

    def enter(self, asker: Asker) -> Waiter:
        self.admit()
        waiter = self.wait(asker)
        self._desk.broker.publish(self.request)
        return waiter

    def wait(self, asker: Asker) -> Waiter:
        self.waits = True
        return self._waiters.add(self.request, asker)

    def answer(self, reply: Reply) -> None:
        self._waiters.settle([reply])

    def backlog_seconds(self) -> float:
        return self._desk.backlog_seconds()
