"""The records of tasks, in memory. `records.py` makes them, for tests in which several gateways share them.
Requests with an idempotency key are kept among them (`claims.py`)."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from penstock.adapters.memory.boxes import MemoryPost
from penstock.errors import Conflict
from penstock.idempotency import KEPT_FAILURES
from penstock.ports import Clock
from penstock.ports.tasks import WITHDRAWN, Ended, EndedTask, TaskRecord, Withdrawal, no_such_task
from penstock.share import Full, refusal
from penstock.types import Accepted, Outcome, Reply, TaskStatus
from penstock.words.messages import Notice, decode_execution, encode, task_name

MOST_ENDED = 10_000  # tasks that have ended and that no ledger has taken yet


@dataclass(slots=True)
class Kept:
    """The record of one task."""

    request: Accepted
    created: float  # seconds since the epoch
    expires: float  # when the record is forgotten, on our clock
    keep: float  # seconds that it is kept once the task is over
    status: TaskStatus = TaskStatus.PENDING
    changed: float = 0.0
    answer: Reply | None = None
    shard: int | None = None  # the shard that its request was sent to
    watchers: set[str] = field(default_factory=set)  # the mailboxes that are told of its end
    # What follows is set for a task with an Idempotency-Key.
    fingerprint: str = ""
    asked: str = ""  # the id of the request that asked first
    brief: float | None = None  # seconds that the outcome is kept, if it is a failure that a retry may mend
    until: float = 0.0  # on our clock, when the gateway that claimed the key must have placed the request
    ends: float = 0.0  # on our clock, when the request must be over
    lasting: bool = True  # False after a failure that a retry may mend: the key may then be claimed anew
    row: bool = True  # whether the end of the task is a row for the ledger
    letter: str = ""  # the id of the dead letter that the task tries again

    @property
    def over(self) -> bool:
        return self.answer is not None


class SharedTasks:
    """All tasks of a bus, by their names."""

    def __init__(self, post: MemoryPost, clock: Clock, wall_clock: Clock, ttl: float, most: int) -> None:
        self.post, self.clock, self.wall_clock = post, clock, wall_clock
        self.ttl = ttl  # seconds that a result is kept
        self._most = most
        self._kept: dict[str, Kept] = {}
        self.ended: deque[EndedTask] = deque(maxlen=MOST_ENDED)  # the rows that no ledger has taken yet
        self.told = asyncio.Event()  # set while there are rows for a ledger

    def find(self, name: str) -> Kept | None:
        """Returns a record; None if there is none, or its time is over."""
        kept = self._kept.get(name)
        if kept is not None and kept.expires <= self.clock():
            del self._kept[name]
            return None
        return kept

    def add(self, name: str, kept: Kept, retry_after: float) -> None:
        """Keep a record. Raises a refusal if there are too many."""
        if len(self._kept) >= self._most:
            for other in list(self._kept):
                self.find(other)  # looking it up strikes off what has expired
            if len(self._kept) >= self._most:
                # 1.0: the share of a tenant, which a refusal by the total does not mention
                raise refusal(Full.TOTAL, "tasks", f"limits.max_tasks is {self._most}", 1.0, retry_after)
        self._kept[name] = kept

    def drop(self, name: str) -> None:
        self._kept.pop(name, None)

    async def settle(self, name: str, reply: Reply) -> None:
        """Write down how a task ended, and tell those who wait. The first ending counts. A caller that settles
        twice tells them twice."""
        kept = self.find(name)
        if kept is None:
            return
        if not kept.over:
            self._end(kept, reply)
        assert kept.answer is not None
        await self.tell(name, kept)

    def _end(self, kept: Kept, reply: Reply) -> None:
        code = "" if reply.failure is None else reply.failure.code
        kept.status, kept.changed, kept.answer = TaskStatus(reply.outcome.value), self.wall_clock(), reply
        kept.lasting = not code or code in KEPT_FAILURES
        brief = kept.brief if kept.brief is not None and not kept.lasting else None
        kept.expires = self.clock() + (kept.keep if brief is None else brief)
        if kept.row:
            request = kept.request
            self.ended.append(
                EndedTask(
                    request.key, kept.asked or request.request_id, request.tenant, request.tier,
                    request.model, code or kept.status, kept.created, kept.changed,
                )
            )  # fmt: skip
            self.told.set()

    async def tell(self, name: str, kept: Kept) -> None:
        """Tell those who wait for the task."""
        failure = None if kept.answer is None else kept.answer.failure
        word = encode(Notice(name, kept.status, "" if failure is None else failure.code))
        await self.post.send_all([(box, word) for box in sorted(kept.watchers)])


class MemoryTasks:
    """Implements `ports.tasks.TaskRecords`, at one gateway."""

    def __init__(self, books: SharedTasks, box: str) -> None:
        self._books, self._box = books, box
        self._pollers: defaultdict[str, set[asyncio.Future[None]]] = defaultdict(set)

    async def create(
        self,
        request: Accepted,
        limit: float,
        *,
        watch: bool = False,
        retry_after: float = 1.0,
        letter: str = "",
    ) -> None:
        books, name = self._books, task_name(request.tenant, request.request_id)
        before = books.find(name)
        if before is not None and not (letter and before.over and before.letter != letter):
            raise Conflict(
                f"a task with the id {request.request_id!r} exists already: choose another X-Request-Id"
            )
        now = books.wall_clock()
        kept = Kept(request, now, books.clock() + limit + books.ttl, books.ttl, changed=now, letter=letter)
        if watch:
            kept.watchers.add(self._box)
        books.add(name, kept, retry_after)

    async def placed(self, request: Accepted) -> None:
        kept = self._books.find(task_name(request.tenant, request.request_id))
        if kept is not None:
            kept.shard = request.shard

    async def forget(self, task_id: str, tenant: str) -> None:
        self._books.drop(task_name(tenant, task_id))

    async def find(self, task_id: str, tenant: str) -> TaskRecord:
        return self._record(task_id, tenant, self._kept(task_id, tenant))

    async def peek(self, task_id: str, tenant: str) -> TaskRecord:
        """Does what `find` does: in memory no record makes room for others, so it does not matter who has read."""
        return self._record(task_id, tenant, self._kept(task_id, tenant))

    async def wait(self, task_id: str, tenant: str, seconds: float) -> TaskRecord:
        kept, name = self._kept(task_id, tenant), task_name(tenant, task_id)
        if not kept.over:
            kept.watchers.add(self._box)
            over = asyncio.get_running_loop().create_future()
            self._pollers[name].add(over)
            try:
                await asyncio.wait([over], timeout=seconds)
            finally:
                self._pollers[name].discard(over)
                if not self._pollers[name]:
                    del self._pollers[name]
        return self._record(task_id, tenant, self._kept(task_id, tenant))

    def notice(self, message: Notice) -> None:
        for over in self._pollers.get(message.task, ()):
            if not over.done():
                over.set_result(None)

    async def cancel(self, task_id: str, tenant: str) -> Withdrawal | None:
        kept = self._kept(task_id, tenant)
        ends_now = not kept.over
        reply = Reply(kept.request, Outcome.CANCELLED, failure=WITHDRAWN)
        await self._books.settle(task_name(tenant, task_id), reply)
        return Withdrawal(kept.shard, kept.request.key) if ends_now and kept.shard is not None else None

    def _kept(self, task_id: str, tenant: str) -> Kept:
        kept = self._books.find(task_name(tenant, task_id))
        if kept is None or kept.request.tenant != tenant:
            raise no_such_task(task_id, self._books.ttl)
        return kept

    def _record(self, task_id: str, tenant: str, kept: Kept) -> TaskRecord:
        answer = kept.answer
        # Each reader may change the execution it is given.
        if answer is not None and answer.execution is not None:
            answer = Reply(
                answer.request, answer.outcome, answer.output, answer.failure, replace(answer.execution)
            )
        request = kept.request
        return TaskRecord(
            task_id, tenant, request.key, request.model, kept.status, kept.changed, answer, kept.asked
        )


class MemoryEndings:
    """Implements `ports.tasks.TaskEndings`."""

    def __init__(self, books: SharedTasks) -> None:
        self._books = books

    async def processing(self, tasks: Sequence[str]) -> None:
        for name in tasks:
            kept = self._books.find(name)
            if kept is not None and kept.status is TaskStatus.PENDING:
                kept.status, kept.changed = TaskStatus.PROCESSING, self._books.wall_clock()

    async def settle(self, endings: Sequence[Ended]) -> Sequence[Ended]:
        for ended in endings:
            kept = self._books.find(ended.task)
            if kept is not None:
                execution = None if ended.failure else decode_execution(ended.execution)
                reply = Reply(kept.request, ended.outcome, ended.output, ended.failure, execution)
                await self._books.settle(ended.task, reply)
        return []
