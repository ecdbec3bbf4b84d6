"""Tasks over a bus: accepted by one gateway, read and cancelled at any, since all share their records. The gateway
hands every task without an Idempotency-Key to the `TaskDesk`, which takes the place of `runtime/tasks.py`. Requests
with such a key (`idempotency.py`), and dead letters that are retried (`dead_letters.py`), are tasks here too."""

import logging
from collections.abc import Callable

from penstock.cluster.unbroken import Unbroken
from penstock.errors import NotFound, PenstockError, StoreDown
from penstock.ports import Clock, Reservation
from penstock.ports.shards import Publisher
from penstock.ports.tasks import TaskRecord, TaskRecords
from penstock.runtime.wheel import Wheel
from penstock.types import Accepted, Reply, TaskStatus
from penstock.units import iso_time
from penstock.words.messages import Notice, task_name

log = logging.getLogger("penstock.gateway")


class RemoteTask:
    """A task as its record was when it was last read. Implements `ports.Task`."""

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


class TaskInFlight:
    """A task that its tenant's quota counts as in flight, until a notice says that it is over, or its deadline
    comes."""

    __slots__ = ("_all", "_name", "_on_end", "settled", "when")

    def __init__(
        self, among: "dict[str, TaskInFlight]", name: str, on_end: Callable[[str], None], when: float
    ) -> None:
        """`among`: all such tasks by name, which this one joins until it is over. `on_end`: called with the code of
        its failure, or nothing. `when`: its deadline."""
        self._all = among
        self._name = name
        self._on_end = on_end
        self.when = when
        self.settled = False
        among[name] = self

    def let_go(self) -> None:
        """Watch the task no longer, and tell nobody."""
        self.settled = True
        if self._all.get(self._name) is self:
            del self._all[self._name]

    def end(self, code: str) -> None:
        """Tell that the task is over. `code`: that of its failure; empty if it succeeded, or nobody knows."""
        if not self.settled:
            self.let_go()
            self._on_end(code)

    def expire(self) -> None:
        self.end("")


class TaskDesk:
    """Implements `penstock.ports.Tasks` over a bus. `over` must be called with every notice."""

    def __init__(
        self, tasks: TaskRecords, publisher: Publisher, clock: Clock, wall_clock: Clock, wheel: Wheel
    ) -> None:
        self.tasks = tasks
        self.publisher = publisher
        self._clock, self._wall_clock = clock, wall_clock
        self._wheel = wheel
        self._held: dict[str, TaskInFlight] = {}  # the tasks that quotas count as in flight, by name
        self._accepting = Unbroken()

    async def accept(self, reserved: Reservation) -> RemoteTask:
        """Accept a task. The batcher or worker that ends it writes that into its record, so this gateway may be
        gone by then. A client that leaves meanwhile does not cancel this."""
        return await self._accepting.whole(self._accept(reserved))

    async def close(self) -> None:
        await self._accepting.close()

    async def _accept(self, reserved: Reservation) -> RemoteTask:
        try:
            await self._publish(reserved)
        except BaseException:
            reserved.roll_back()
            raise
        reserved.commit()
        return await self._published(reserved.request)

    async def _publish(self, reserved: Reservation) -> None:
        request = reserved.request
        await self._create(request, watch=reserved.in_flight, retry_after=reserved.backlog_seconds())
        if not reserved.in_flight:
            await self._send(request)
            return
        # This comes before the task is sent, since it may be over before `_send` returns.
        held = TaskInFlight(
            self._held, task_name(request.tenant, request.request_id), reserved.over, request.deadline
        )
        self._wheel.add(held)
        try:
            await self._send(request)
        except BaseException:
            held.let_go()  # the task is not accepted, and whoever asked for it knows
            raise

    async def retry(self, request: Accepted, letter: str) -> RemoteTask:
        """Accept a request that is retried from a dead letter. No quota counts it. Raises Conflict if its task is
        not over, or this letter was retried before."""
        return await self._accepting.whole(self._retry(request, letter))

    async def _retry(self, request: Accepted, letter: str) -> RemoteTask:
        await self._create(request, watch=False, retry_after=1.0, letter=letter)
        await self._send(request)
        return await self._published(request)

    def over(self, notice: Notice) -> None:
        """Note that a task is over, so that its tenant's quota counts it no longer."""
        held = self._held.get(notice.task)
        if held is not None:
            held.end(notice.code)

    async def _create(self, request: Accepted, *, watch: bool, retry_after: float, letter: str = "") -> None:
        left = request.deadline - self._clock()
        await self.tasks.create(request, left, watch=watch, retry_after=retry_after, letter=letter)

    async def _send(self, request: Accepted) -> None:
        try:
            await self.publisher.accepted(request)
        except PenstockError:
            await self._forget(request)
            raise

    async def _forget(self, request: Accepted) -> None:
        try:
            await self.tasks.forget(request.request_id, request.tenant)
        except StoreDown as error:  # why it was refused matters more; the record runs out by itself
            log.warning("the record of a refused task was left behind", extra={"error": error.message})

    async def _published(self, request: Accepted) -> RemoteTask:
        """Note in the record that the task has been published. It is executed even if this fails."""
        try:
            await self.tasks.placed(request)
        except StoreDown as error:
            log.warning("a task cannot be withdrawn from its batcher", extra={"error": error.message})
        return self.pending(request)

    def pending(self, request: Accepted, asked: str = "") -> RemoteTask:
        """The task of a request that was published just now. `asked`: the id that its client gave the request."""
        record = TaskRecord(
            request.request_id, request.tenant, request.key, request.model, TaskStatus.PENDING,
            self._wall_clock(), None, asked,
        )  # fmt: skip
        return RemoteTask(self, record)

    async def describe(self, task_id: str, tenant: str) -> dict[str, object] | None:
        """How a task stands, for the admin plane. Its record does not say when it came."""
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
