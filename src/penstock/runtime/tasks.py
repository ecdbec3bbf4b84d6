"""Asynchronous requests: accepted now, fetched later (SPEC A2–A4).

Bounded by count and by bytes: the oldest finished results go first; when all are pending, the door is closed.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from penstock.errors import Conflict, NotFound, Overloaded
from penstock.ports import Asker, Waiting
from penstock.runtime.flight import is_queued
from penstock.runtime.wheel import Wheel
from penstock.types import Reply, Request, TaskStatus


class Keeper(Protocol):
    """Where a task is kept."""

    def holds(self, task: "StoredTask") -> bool: ...

    def finish(self, task: "StoredTask", reply: Reply) -> None: ...

    def forget(self, task: "StoredTask") -> None: ...


class StoredTask:
    """An asker that keeps the answer until somebody fetches it."""

    __slots__ = ("_pollers", "_store", "_waiter", "answer", "changed_at", "request", "when")

    def __init__(self, store: Keeper, request: Request, now: float) -> None:
        self._store = store
        self._waiter: Waiting | None = None
        self.request = request
        self._pollers: list[asyncio.Future[None]] = []
        self.answer: Reply | None = None
        self.changed_at = now
        self.when = 0.0  # until which the answer is kept, once there is one

    def entered(self, waiter: Waiting) -> None:
        self._waiter = waiter

    @property
    def id(self) -> str:
        return self.request.request_id

    @property
    def name(self) -> tuple[str, str]:
        return self.request.tenant, self.request.request_id

    @property
    def settled(self) -> bool:
        """Evicted already."""
        return not self._store.holds(self)

    @property
    def status(self) -> TaskStatus:
        if self.answer is not None:
            return TaskStatus(self.answer.outcome.value)
        return TaskStatus.PENDING if is_queued(self.request) else TaskStatus.PROCESSING

    async def wait(self, seconds: float) -> None:
        if self.answer is None:
            over = asyncio.get_running_loop().create_future()
            self._pollers.append(over)
            try:
                await asyncio.wait([over], timeout=seconds)
            finally:
                self._pollers.remove(over)

    def reply(self, reply: Reply) -> None:
        self.answer = reply
        self._store.finish(self, reply)
        for over in self._pollers:
            over.set_result(None)

    async def cancel(self) -> None:
        if self._waiter is not None:
            self._waiter.withdraw()

    def expire(self) -> None:
        """Kept long enough."""
        self._store.forget(self)


class TaskStore:
    def __init__(
        self,
        wheel: Wheel,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        *,
        max_tasks: int,
        max_bytes: int,
        ttl: float,
    ) -> None:
        self._wheel = wheel
        self._clock = clock
        self._wall_clock = wall_clock
        self._max_tasks = max_tasks
        self._max_bytes = max_bytes
        self._ttl = ttl
        self._tasks: dict[tuple[str, str], StoredTask] = {}  # tenants choose their ids, and two the same
        self._finished: OrderedDict[tuple[str, str], StoredTask] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._tasks)

    async def accept(
        self,
        request: Request,
        enter: Callable[[Asker], Waiting],
        backlog_seconds: Callable[[], float],
        on_end: Callable[[str], None] | None = None,
    ) -> StoredTask:
        name = (request.tenant, request.request_id)
        if name in self._tasks:
            raise Conflict(
                f"a task with the id {request.request_id!r} exists already: choose another X-Request-Id"
            )
        if len(self._tasks) >= self._max_tasks:
            if not self._finished:
                raise Overloaded(
                    f"too many tasks are pending: limits.max_tasks is {self._max_tasks}",
                    retry_after=backlog_seconds(),
                )
            self._evict()
        task = self._tasks[name] = StoredTask(self, request, self._wall_clock())
        try:
            task.entered(enter(task))
        except BaseException:
            del self._tasks[name]  # it was refused
            raise
        return task

    async def find(self, task_id: str, tenant: str) -> StoredTask:
        """To anyone but the tenant that made it, it does not exist (SPEC A3)."""
        task = self._tasks.get((tenant, task_id))
        if task is None:
            raise NotFound(
                f"no task {task_id[:128]!r}: it never was, or its result is older than {self._ttl:g} s"
            )
        return task

    def ended_at(self, task: StoredTask) -> float:
        """When it was answered, if it was."""
        return task.when - self._ttl

    def holds(self, task: StoredTask) -> bool:
        return self._tasks.get(task.name) is task

    def peek(self, task_id: str, tenant: str | None = None) -> StoredTask | None:
        """Of whichever tenant, if none is named: for the admin plane. That searches."""
        if tenant is not None:
            return self._tasks.get((tenant, task_id))
        return next((task for task in self._tasks.values() if task.id == task_id), None)

    def finish(self, task: StoredTask, reply: Reply) -> None:
        task.changed_at = self._wall_clock()
        reply.request.input = b""  # nobody needs it any more
        self._finished[task.name] = task
        self.bytes += len(reply.output)
        task.when = self._clock() + self._ttl
        self._wheel.add(task)
        while self.bytes > self._max_bytes and self._finished:
            self._evict()

    def _evict(self) -> None:
        self.forget(next(iter(self._finished.values())))

    def forget(self, task: StoredTask) -> None:
        if self._finished.pop(task.name, None) is not None:
            del self._tasks[task.name]
            assert task.answer is not None
            self.bytes -= len(task.answer.output)
