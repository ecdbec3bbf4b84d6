"""Asynchronous requests: accepted now, fetched later (SPEC A2–A4).

Bounded by count and by bytes: the oldest finished results go first; when all are pending, the door is closed.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from penstock.errors import Conflict, NotFound, Overloaded
from penstock.runtime.waiters import WITHDRAWN, Waiter
from penstock.runtime.wheel import Wheel
from penstock.types import Reply, TaskStatus


class StoredTask:
    __slots__ = ("_future", "_store", "_waiter", "changed_at", "id", "reply", "request", "when")

    def __init__(self, store: "TaskStore", task_id: str, waiter: Waiter, now: float) -> None:
        self._store = store
        self._waiter = waiter
        self._future = waiter.future
        self.request = waiter.request
        self.id = task_id
        self.when = 0.0  # until which its result is kept, once there is one
        self.reply: Reply | None = None
        self.changed_at = now

    @property
    def settled(self) -> bool:
        """Evicted already."""
        return not self._store.holds(self)

    @property
    def status(self) -> TaskStatus:
        if self.reply is not None:
            return TaskStatus(self.reply.outcome.value)
        return TaskStatus.PENDING if self.request.waiting else TaskStatus.PROCESSING

    async def wait(self, seconds: float) -> None:
        if self.reply is None:
            await asyncio.wait([self._future], timeout=seconds)

    def cancel(self) -> None:
        self._waiter.give_up(WITHDRAWN)

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
        self._tasks: dict[str, StoredTask] = {}
        self._finished: OrderedDict[str, StoredTask] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._tasks)

    def check_room(self, task_id: str | None, drain_seconds: float) -> None:
        if task_id is not None and task_id in self._tasks:
            raise Conflict(f"a task with the id {task_id!r} exists already: choose another X-Request-Id")
        if len(self._tasks) >= self._max_tasks and not self._finished:
            raise Overloaded("too many tasks are pending", retry_after=drain_seconds)

    def open(self, waiter: Waiter) -> StoredTask:
        if len(self._tasks) >= self._max_tasks:
            self._evict()
        task = StoredTask(self, waiter.request.request_id, waiter, self._wall_clock())
        self._tasks[task.id] = task
        waiter.future.add_done_callback(lambda future: self._finish(task, future.result()))
        return task

    def find(self, task_id: str, tenant: str) -> StoredTask:
        """To anyone but the tenant that made it, it does not exist (SPEC A3)."""
        task = self._tasks.get(task_id)
        if task is None or task.request.tenant != tenant:
            raise NotFound(f"no task {task_id!r}: it never was, or its result is older than {self._ttl:g} s")
        return task

    def holds(self, task: StoredTask) -> bool:
        return self._tasks.get(task.id) is task

    def peek(self, task_id: str) -> StoredTask | None:
        """Whoever's it is: for the admin plane."""
        return self._tasks.get(task_id)

    def _finish(self, task: StoredTask, reply: Reply) -> None:
        task.reply = reply
        task.changed_at = self._wall_clock()
        reply.request.input = b""  # nobody needs it any more
        self._finished[task.id] = task
        self.bytes += len(reply.output)
        task.when = self._clock() + self._ttl
        self._wheel.add(task)
        while self.bytes > self._max_bytes and self._finished:
            self._evict()

    def _evict(self) -> None:
        self.forget(next(iter(self._finished.values())))

    def forget(self, task: StoredTask) -> None:
        if self._finished.pop(task.id, None) is not None:
            del self._tasks[task.id]
            assert task.reply is not None
            self.bytes -= len(task.reply.output)
