"""Tasks in one process: asynchronous requests, accepted now and fetched later. The gateway hands every task without
an Idempotency-Key to the `TaskStore`; those with one go to `idempotency.py`. Over a bus `cluster/tasks.py` takes
its place.

The store is bounded by number, by bytes and by time, in all and for each tenant (`penstock.share`). A result that
nobody has fetched is kept for its time, and a tenant that has used up its share is refused. Results that were
fetched make room before their time is over, the oldest first. A tenant's results never make room for another
tenant's.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from penstock.core.shares import Shares
from penstock.errors import Conflict, Overloaded
from penstock.ports import Reservation, Waiting
from penstock.ports.tasks import no_such_task
from penstock.runtime.by_tenant import ByTenant
from penstock.runtime.wheel import Wheel
from penstock.share import OVERHEAD, Full, refusal
from penstock.types import Accepted, Failure, Outcome, Reply, TaskStatus

NO_ROOM = Overloaded.code  # the failure of a task whose result could not be kept


class Store(Protocol):
    """Where a task is kept: `TaskStore` here, or `idempotency.KeyedStore`."""

    def finish(self, task: "StoredTask", reply: Reply) -> None:
        """Keep the reply to a task."""
        ...

    def fetched(self, task: "StoredTask") -> None:
        """Note that somebody has fetched the task."""
        ...


class StoredTask:
    """An asker that keeps the answer until somebody fetches it."""

    __slots__ = ("_pollers", "_store", "_waiter", "answer", "changed_at", "request", "size", "when")

    def __init__(self, store: Store, request: Accepted, now: float) -> None:
        self._store = store
        self._waiter: Waiting | None = None
        self.request = request
        self._pollers: list[asyncio.Future[None]] = []  # one for each `wait` that is under way
        self.answer: Reply | None = None
        self.changed_at = now  # the time of day at which the status last changed, as far as is known
        self.when = 0.0  # until when, by the clock, the answer is kept, once there is one
        self.size = size_of_pending(request)  # bytes that the task counts for

    def entered(self, waiter: Waiting) -> None:
        """Note the waiter of the request, by which it can be withdrawn."""
        self._waiter = waiter

    @property
    def id(self) -> str:
        return self.request.request_id

    @property
    def name(self) -> tuple[str, str]:
        """The name under which the store keeps the task: its tenant, and its id."""
        return self.request.tenant, self.request.request_id

    @property
    def status(self) -> TaskStatus:
        if self.answer is not None:
            return TaskStatus(self.answer.outcome.value)
        if self._waiter is None or self._waiter.is_queued():
            return TaskStatus.PENDING
        return TaskStatus.PROCESSING

    async def wait(self, seconds: float) -> None:
        if self.answer is None:
            over = asyncio.get_running_loop().create_future()
            self._pollers.append(over)
            try:
                await asyncio.wait([over], timeout=seconds)
            finally:
                self._pollers.remove(over)
            self._store.fetched(self)

    def reply(self, reply: Reply) -> None:
        self._store.finish(self, reply)
        for over in self._pollers:
            over.set_result(None)

    def keep(self, reply: Reply) -> None:
        """Keep the answer, and of the request only its names, in a copy. The request itself is not changed, but for
        its input: it may still be in a queue, where it is found by its parameters."""
        request = reply.request
        request.input = b""
        self.request = Accepted(
            request.key, request.model, b"", request.arrival, request.expires, request.deadline, request.request_id,
            tenant=request.tenant, tier=request.tier, traceparent=request.traceparent, task=request.task,
        )  # fmt: skip
        self.answer = Reply(self.request, reply.outcome, reply.output, reply.failure, reply.execution)
        self.size = size_of_answer(self.answer)

    async def cancel(self) -> None:
        if self._waiter is not None:
            self._waiter.withdraw()


def size_of_pending(request: Accepted) -> int:
    """The bytes that a task counts for until it is over."""
    return OVERHEAD + len(request.input) + len(request.parameters)


def size_of_answer(answer: Reply) -> int:
    """The bytes that a task counts for once it is over."""
    failure = answer.failure
    return (
        OVERHEAD
        + len(answer.output)
        + (0 if failure is None else len(failure.message) + len(failure.details))
    )


class Sweep:
    """An entry for the wheel: the time at which the oldest result has been kept long enough."""

    __slots__ = ("expire", "settled", "when")

    def __init__(self, when: float, expire: Callable[[], None]) -> None:
        self.when = when
        self.settled = False
        self.expire = expire


class TaskStore:
    """Implements `ports.Tasks` in one process."""

    def __init__(
        self,
        wheel: Wheel,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        *,
        max_tasks: int,
        max_bytes: int,
        ttl: float,
        share: float = 1.0,
    ) -> None:
        """`ttl`: seconds that a result is kept. `share`: the part of the bounds that one tenant may fill."""
        self._wheel = wheel
        self._clock = clock
        self._wall_clock = wall_clock
        self._settings = f"limits.max_tasks is {max_tasks} and limits.max_task_bytes is {max_bytes}"
        self._share = share
        self._shares = Shares(max_tasks, max_bytes, share)
        self._ttl = ttl
        # By tenant and id: tenants choose their ids, and two may choose the same.
        self._tasks: dict[tuple[str, str], StoredTask] = {}
        # Finished tasks, the oldest first.
        self._finished: OrderedDict[tuple[str, str], StoredTask] = OrderedDict()
        self._fetched: ByTenant[StoredTask] = ByTenant()  # finished tasks that somebody has fetched
        self._unread: ByTenant[StoredTask] = ByTenant()  # finished tasks that nobody has fetched

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def bytes(self) -> int:
        return self._shares.bytes

    async def accept(self, reserved: Reservation) -> StoredTask:
        try:
            task = self._accept(reserved)
        except BaseException:
            reserved.roll_back()
            raise
        reserved.commit()
        return task

    def _accept(self, reserved: Reservation) -> StoredTask:
        request = reserved.request
        name = (request.tenant, request.request_id)
        if name in self._tasks:
            raise Conflict(
                f"a task with the id {request.request_id!r} exists already: choose another X-Request-Id"
            )
        size = size_of_pending(request)
        full = self._make_room(request.tenant, size)
        if full is not None:
            raise refusal(full, "tasks", self._settings, self._share, reserved.backlog_seconds())
        task = self._tasks[name] = StoredTask(self, request, self._wall_clock())
        self._shares.take(request.tenant, size)
        try:
            task.entered(reserved.enter(task))
        except BaseException:
            del self._tasks[name]  # the task was refused
            self._shares.give(request.tenant, size)
            raise
        return task

    async def find(self, task_id: str, tenant: str) -> StoredTask:
        """The task with this id. Only the tenant that made it can find it."""
        task = self._tasks.get((tenant, task_id))
        if task is None:
            raise no_such_task(task_id, self._ttl)
        self.fetched(task)
        return task

    def ended_at(self, task: StoredTask) -> float:
        """When the task was answered, if it was."""
        return task.when - self._ttl

    def peek(self, task_id: str, tenant: str | None = None) -> StoredTask | None:
        """The task, for the admin plane. If no tenant is named, all of them are searched."""
        if tenant is not None:
            return self._tasks.get((tenant, task_id))
        return next((task for task in self._tasks.values() if task.id == task_id), None)

    def finish(self, task: StoredTask, reply: Reply) -> None:
        """Keep the reply to a task. Other results of its tenant make room for it; if that is not enough, it
        fails."""
        task.changed_at = self._wall_clock()
        task.when = self._clock() + self._ttl
        tenant = task.request.tenant
        self._measure(task, reply)
        while (full := self._shares.overgrown(tenant)) is not None:
            oldest = self._fetched.oldest(tenant) or self._unread.oldest(tenant)
            if oldest is None:
                self._measure(task, self._too_large(reply, full))
                break
            self.forget(oldest)
        self._finished[task.name] = task
        # A task that was cancelled counts as fetched: whoever cancelled it knows its end.
        row = self._fetched if reply.outcome is Outcome.CANCELLED else self._unread
        row.add(tenant, task.name, task)
        if len(self._finished) == 1:
            self._wheel.add(Sweep(task.when, self._sweep))

    def _measure(self, task: StoredTask, reply: Reply) -> None:
        before = task.size
        task.keep(reply)
        self._shares.grow(task.request.tenant, task.size - before)

    def _too_large(self, reply: Reply, full: Full) -> Reply:
        why = refusal(full, "results", self._settings, self._share, 1.0)
        return Reply(reply.request, Outcome.FAILED, failure=Failure(NO_ROOM, why.message))

    def _sweep(self) -> None:
        """Forget what has been kept long enough, and come back for the next."""
        now = self._clock()
        while self._finished:
            oldest = next(iter(self._finished.values()))
            if oldest.when > now:
                self._wheel.add(Sweep(oldest.when, self._sweep))
                return
            self.forget(oldest)

    def fetched(self, task: StoredTask) -> None:
        """Note that the result was read: it may make room from now on, if the task is over."""
        tenant = task.request.tenant
        if self._unread.drop(tenant, task.name):
            self._fetched.add(tenant, task.name, task)

    def forget(self, task: StoredTask) -> None:
        """Drop a task that is over."""
        if self._finished.pop(task.name, None) is not None:
            tenant = task.request.tenant
            del self._tasks[task.name]
            self._shares.give(tenant, task.size)
            if not self._fetched.drop(tenant, task.name):
                self._unread.drop(tenant, task.name)

    def _make_room(self, tenant: str, size: int) -> Full | None:
        """Forget results that this tenant has fetched, until there is room. Returns why there is none, or None."""
        while (full := self._shares.full(tenant, size)) is not None:
            oldest = self._fetched.oldest(tenant)
            if oldest is None:
                return full
            self.forget(oldest)
        return None
