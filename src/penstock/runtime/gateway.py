"""The gateway: turns an ask into an accepted request with a waiter, or refuses it (SPEC A1–A4, C3, D4).

Nothing here awaits: accepting is one call, and the answer is a future.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from penstock.errors import Draining, NotFound, Overloaded, Refused, Unacceptable
from penstock.ports import Asker, Broker, Clock, Observer, Task, Tasks
from penstock.runtime.waiters import Waiter, Waiters
from penstock.runtime.wheel import Wheel
from penstock.types import Ask, Reply, Request

Admit = Callable[[Request, float], Refused | None]


@dataclass(frozen=True, slots=True)
class Desk:
    """Where requests for one model are taken in."""

    model: str
    kind: str  # of input: text or json
    broker: Broker
    admit: Admit
    backlog_seconds: Callable[[], float]  # how long what waits now will take
    cost: Callable[[bytes], float] | None  # of an input; None: each counts one
    takes_parameters: Callable[[], bool]
    queue_limit: float
    request_limit: float
    longest_limit: float
    announced: object = None  # by whoever told of the model, so that a change can be seen


class Gateway:
    def __init__(
        self,
        desks: Mapping[str, Desk],
        tenants: Callable[[str | None], tuple[str, int]],
        tasks: Tasks,
        wheel: Wheel,
        observer: Observer,
        clock: Clock,
        id_prefix: str,
    ) -> None:
        self._desks = desks
        self._tenant = tenants
        self._anonymous = tenants(None)
        self._tasks = tasks
        self._observer = observer
        self._prefix = id_prefix
        self._numbers = count(1)
        self.clock = clock
        self.draining = False
        self.kinds: dict[str | None, str] = {}
        self._only: Desk | None = None
        self.desks_changed()
        self.waiters = Waiters(wheel, self._withdraw)
        self.waiters.on_settled = self._settled

    def desks_changed(self) -> None:
        """To be told by whoever adds a model or takes one away."""
        self.kinds.clear()
        self.kinds.update(self.models)
        self._only = next(iter(self._desks.values())) if len(self._desks) == 1 else None
        if self._only is not None:
            self.kinds[None] = self._only.kind

    @property
    def models(self) -> Mapping[str, str]:
        return {name: desk.kind for name, desk in self._desks.items()}

    def kind_of(self, model: str | None) -> str:
        return self._desk(model).kind

    def _desk(self, model: str | None) -> Desk:
        if model is None:
            if self._only is not None:
                return self._only
            if not self._desks:
                raise Overloaded("no model is served yet: no worker has joined", retry_after=1.0)
            raise Unacceptable(f"say which model: this server has {', '.join(sorted(self._desks))}")
        desk = self._desks.get(model)
        if desk is None:
            raise NotFound(f"no model {model!r}; this server has {', '.join(sorted(self._desks))}")
        return desk

    def submit(self, ask: Ask, asker: Asker) -> Waiter:
        desk, request = self._admit(ask)
        waiter = self.waiters.add(request, asker)
        desk.broker.publish(request)
        return waiter

    def _admit(self, ask: Ask) -> tuple[Desk, Request]:
        desk = self._only if ask.model is None and self._only is not None else self._desk(ask.model)
        if self.draining:
            raise Draining("this server is shutting down", retry_after=max(1.0, desk.backlog_seconds()))
        if ask.parameters and not desk.takes_parameters():
            raise Unacceptable(f"the model {desk.model!r} takes no parameters")
        now = self.clock()
        queue_limit, request_limit = desk.queue_limit, desk.request_limit
        if ask.timeout is not None:
            queue_limit = request_limit = min(ask.timeout, desk.longest_limit)
        key = f"{self._prefix}{next(self._numbers):x}"
        tenant, tier = self._anonymous if ask.client_id is None else self._tenant(ask.client_id)
        request = Request(
            key,
            desk.model,
            ask.input,
            now,
            now + queue_limit,
            now + request_limit,
            ask.request_id or key,
            ask.parameters,
            tenant,
            tier,
            1.0 if desk.cost is None else desk.cost(ask.input),
            len(ask.input),
            ask.traceparent,
        )
        refused = desk.admit(request, now)
        if refused is not None:
            refused.model = desk.model
            try:
                raise refused
            finally:
                del refused  # else it and this frame, which its traceback holds, wait for the collector
        return desk, request

    async def submit_task(self, ask: Ask) -> Task:
        desk, request = self._admit(ask)
        request.task = True

        def enter(asker: Asker) -> Waiter:
            waiter = self.waiters.add(request, asker)
            desk.broker.publish(request)
            return waiter

        return await self._tasks.accept(request, enter, desk.backlog_seconds)

    async def find_task(self, task_id: str, client_id: str | None) -> Task:
        return await self._tasks.find(task_id, self._tenant(client_id)[0])

    def count(self, model: str, code: str) -> None:
        self._observer.refused_at_door(model if model in self._desks else "", code)

    def describe(self, request_id: str) -> dict[str, object] | None:
        """How a request that waits for its answer stands, by its asker's id. For people: it searches."""
        request = self.waiters.find(request_id)
        return None if request is None else self.describe_request(request)

    def describe_request(self, request: Request) -> dict[str, object]:
        now = self.clock()
        return {
            "request_id": request.request_id,
            "model": request.model,
            "tenant": request.tenant,
            "tier": request.tier,
            "status": "PENDING" if request.waiting else "PROCESSING",
            "age_ms": round((now - request.arrival) * 1e3, 3),
            "deadline_in_ms": round((request.deadline - now) * 1e3, 3),
            "failed_executions": request.executions,
        }

    def _withdraw(self, request: Request) -> None:
        self._desks[request.model].broker.withdraw(request)

    def _settled(self, replies: Sequence[Reply]) -> None:
        self._observer.replied(replies, self.clock())

    async def drained(self, seconds: float) -> bool:
        """Accept nothing more; wait until everyone is answered, or this long. True if everyone was."""
        self.draining = True
        if not self.waiters:
            return True
        empty = asyncio.Event()
        self.waiters.on_empty = empty.set
        try:
            async with asyncio.timeout(seconds):
                await empty.wait()
        except TimeoutError:
            return False
        return True
