"""Asynchronous requests whose records all gateways share: accepted by one, read and cancelled at any."""

import time
from collections.abc import Callable

from penstock.errors import NotFound, PenstockError
from penstock.ports import Clock, Reservation
from penstock.ports.shards import Publisher
from penstock.ports.tasks import TaskRecord, TaskRecords
from penstock.runtime.wheel import Wheel
from penstock.types import Accepted, Reply, TaskStatus
from penstock.units import iso_time
from penstock.words.messages import Notice, task_name


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


class Held:
    """A task that counts as in flight until its end is heard of, or until it must be over."""

    __slots__ = ("_all", "_name", "_on_end", "settled", "when")

    def __init__(
        self, among: "dict[str, Held]", name: str, on_end: Callable[[str], None], when: float
    ) -> None:
        self._all = among
        self._name = name
        self._on_end = on_end
        self.when = when
        self.settled = False
        among[name] = self

    def let_go(self) -> None:
        self.settled = True
        if self._all.get(self._name) is self:
            del self._all[self._name]

    def end(self, code: str) -> None:
        if not self.settled:
            self.let_go()
            self._on_end(code)

    def expire(self) -> None:
        self.end("")


class TaskDesk:
    """`penstock.ports.Tasks` over a bus. Every notice is to be told to `over`."""

    def __init__(self, tasks: TaskRecords, publisher: Publisher, clock: Clock, wheel: Wheel) -> None:
        self.tasks = tasks
        self.publisher = publisher
        self._clock = clock
        self._wheel = wheel
        self._held: dict[str, Held] = {}

    async def accept(self, reserved: Reservation) -> RemoteTask:
        """Record the task and send it. Nobody waits for it here: whoever ends it writes that down, and this
        gateway may be gone by then."""
        request = reserved.request
        await self._create(request, watch=reserved.in_flight, retry_after=reserved.backlog_seconds())
        if not reserved.in_flight:
            return await self._send(request)
        # This comes before the request is sent: it may be over before we hear that it was.
        held = Held(
            self._held, task_name(request.tenant, request.request_id), reserved.over, request.deadline
        )
        self._wheel.add(held)
        try:
            return await self._send(request)
        except BaseException:
            held.let_go()  # the task is not accepted, and whoever asked for it knows
            raise

    async def take(self, request: Accepted) -> RemoteTask:
        """Record and send a request that counts against nobody's quota."""
        await self._create(request, watch=False, retry_after=1.0)
        return await self._send(request)

    def over(self, notice: Notice) -> None:
        held = self._held.get(notice.task)
        if held is not None:
            held.end(notice.code)

    async def _create(self, request: Accepted, *, watch: bool, retry_after: float) -> None:
        left = request.deadline - self._clock()
        await self.tasks.create(request, left, watch=watch, retry_after=retry_after)

    async def _send(self, request: Accepted) -> RemoteTask:
        try:
            await self.publisher.accepted(request)
        except PenstockError:
            await self.tasks.forget(request.request_id, request.tenant)
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

    async def describe(self, task_id: str, tenant: str) -> dict[str, object] | None:
        """How a task stands, for people. When it came is not kept, so nor is how long it took."""
        try:
            record = await self.tasks.peek(task_id, tenant)
        except NotFound:
            return None
        said: dict[str, object] = {
            "request_id": record.id,
            "model": record.model,
            "tenant": record.tenant,
            "status": record.status,
            "changed" if record.answer is None else "ended": iso_time(record.changed_at),
        }
        failure = None if record.answer is None else record.answer.failure
        execution = None if record.answer is None else record.answer.execution
        if failure is not None:
            said["error"] = {"error": failure.code, "message": failure.message}
        if execution is not None:
            said |= {
                "inference_ms": round(execution.seconds * 1e3, 3),
                "batch_size": execution.batch_size,
                "worker": execution.worker,
            }
        return said

    async def find(self, task_id: str, tenant: str) -> RemoteTask:
        return RemoteTask(self, await self.tasks.find(task_id, tenant))
