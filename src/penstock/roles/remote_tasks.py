"""Asynchronous requests whose records are in Redis: accepted by one gateway, read and cancelled at any (A2–A4)."""

import time
from collections.abc import Callable

from penstock.adapters.redis.publisher import Publisher
from penstock.adapters.redis.tasks import RedisTasks, TaskRecord
from penstock.errors import PenstockError
from penstock.ports import Asker, Clock, Waiting
from penstock.types import Reply, Request, TaskStatus


class RemoteTask:
    """A task as it stood when it was last looked at."""

    def __init__(self, desk: "TaskDesk", record: TaskRecord) -> None:
        self._desk = desk
        self._record = record

    @property
    def id(self) -> str:
        return self._record.id

    @property
    def status(self) -> TaskStatus:
        return self._record.status

    @property
    def answer(self) -> Reply | None:
        return self._record.answer

    @property
    def changed_at(self) -> float:
        return self._record.changed_at

    async def wait(self, seconds: float) -> None:
        if self._record.answer is None:
            self._record = await self._desk.tasks.wait(self._record.id, self._record.tenant, seconds)

    async def cancel(self) -> None:
        record, tasks = self._record, self._desk.tasks
        withdrawal = await tasks.cancel(record.id, record.tenant)
        if withdrawal is not None:
            self._desk.publisher.withdraw_key(withdrawal.key, withdrawal.shard)
        self._record = await tasks.find(record.id, record.tenant)


class TaskDesk:
    """`penstock.ports.Tasks` over Redis."""

    def __init__(self, tasks: RedisTasks, publisher: Publisher, clock: Clock) -> None:
        self.tasks = tasks
        self.publisher = publisher
        self._clock = clock

    async def accept(
        self, request: Request, enter: Callable[[Asker], Waiting], backlog_seconds: Callable[[], float]
    ) -> RemoteTask:
        return await self.take(request)

    async def take(self, request: Request) -> RemoteTask:
        """Nobody waits for it here: whoever ends it writes that down, and this gateway may be gone by then."""
        await self.tasks.create(request, request.deadline - self._clock())
        try:
            await self.publisher.accepted(request)
        except PenstockError:
            await self.tasks.forget(request.request_id)
            raise
        await self.tasks.placed(request)
        pending = TaskRecord(
            request.request_id,
            request.tenant,
            request.key,
            request.model,
            TaskStatus.PENDING,
            time.time(),
            None,
        )
        return RemoteTask(self, pending)

    async def find(self, task_id: str, tenant: str) -> RemoteTask:
        return RemoteTask(self, await self.tasks.find(task_id, tenant))
