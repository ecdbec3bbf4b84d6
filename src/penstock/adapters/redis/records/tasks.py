"""The records of tasks at one gateway: a task that is accepted here can be fetched and cancelled at every gateway.
`records.py` makes the `RedisTasks`, and a gateway's `cluster/tasks.py` calls it.

The records are in Redis, which forgets them when they have been kept long enough. The caller creates a task before
its request is published, then says to which shard it went, or forgets the task if publishing failed.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping

from penstock.adapters.redis.bus.mailbox import Post
from penstock.adapters.redis.link.connect import Store, guard
from penstock.adapters.redis.link.gathered import Gathered
from penstock.adapters.redis.records.holdings import Bounds, tasks
from penstock.adapters.redis.records.task_endings import News, tell
from penstock.adapters.redis.records.task_scripts import CANCEL, CREATE, DROP, PLACE, READ, WATCH
from penstock.errors import Conflict, NotFound
from penstock.ports.tasks import WITHDRAWN, TaskRecord, Withdrawal, no_such_task
from penstock.share import OVERHEAD
from penstock.types import Accepted, Failure, Outcome, Reply, TaskStatus
from penstock.words.messages import Notice, decode_execution, task_name


class RedisTasks:
    """Implements `ports.tasks.TaskRecords`."""

    def __init__(self, store: Store, box: str, post: Post, ttl: float, bounds: Bounds | None = None) -> None:
        """`box`: this gateway's mailbox; the gateway must hand its notices to `notice`. `ttl`: seconds that a
        result is kept."""
        self._store, self._box, self._post, self._ttl = store, box, post, ttl
        self._bounds = bounds or tasks()
        self._look = Gathered(WATCH, store)
        # By task, those who wait here for its end.
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
        """Create a task. `limit`: seconds after which the request is over in any case; the record is kept a ttl
        beyond that. `watch`: whether this gateway wants a notice of its end. `retry_after`: what the refusal says
        if there is no room for it. `letter`: the dead letter that it retries; then a task of this id that is over
        is replaced, unless it was made for the same letter."""
        keep, span = round(self._ttl * 1e3), round(limit * 1e3)
        box = self._box if watch else ""
        arguments = (
            request.request_id, request.tenant, request.tier, request.key, request.model, keep, keep + span,
            box, span + 60_000, size_of(request), *self._bounds.arguments(self._store),
            letter,
        )  # fmt: skip
        name, keys = task_name(request.tenant, request.request_id), self._store.keys
        names = [keys.task(name), keys.watch(name), *keys.held(name)]
        with guard():
            created = await CREATE(self._store.commands, names, arguments)
        if isinstance(created, bytes):
            raise self._bounds.refusal(created, self._store, retry_after)
        if not created:
            raise Conflict(
                f"a task with the id {request.request_id!r} exists already: choose another X-Request-Id"
            )

    async def placed(self, request: Accepted) -> None:
        """Note that the request has been sent: from now on it can be withdrawn from anywhere."""
        assert request.shard is not None
        key = self._store.keys.task(task_name(request.tenant, request.request_id))
        with guard():
            await PLACE(self._store.commands, [key], [request.shard])

    async def forget(self, task_id: str, tenant: str) -> None:
        """Drop the record of a request that was never accepted."""
        name, keys = task_name(tenant, task_id), self._store.keys
        with guard():
            await DROP(self._store.commands, [keys.task(name), *keys.held(name)])

    async def find(self, task_id: str, tenant: str) -> TaskRecord:
        """Returns the task to its tenant, and counts it as read. For any other tenant it does not exist."""
        name, keys = task_name(tenant, task_id), self._store.keys
        with guard():
            flat = await READ(self._store.commands, [keys.task(name), *keys.held(name)])
        return await self._record(task_id, tenant, dict(zip(flat[::2], flat[1::2], strict=True)))

    async def peek(self, task_id: str, tenant: str) -> TaskRecord:
        """Returns the task for the admin plane. It does not count as read."""
        key = self._store.keys.task(task_name(tenant, task_id))
        with guard():
            fields = await self._store.commands.execute_command("HGETALL", key)
        return await self._record(task_id, tenant, fields)

    async def wait(self, task_id: str, tenant: str, seconds: float) -> TaskRecord:
        """Returns the task when it is over, or as it is after so many seconds."""
        over, name = asyncio.get_running_loop().create_future(), task_name(tenant, task_id)
        self._pollers[name].add(over)
        try:
            record = await self._watch(task_id, tenant, seconds)
            if record.answer is not None:
                return record
            await asyncio.wait([over], timeout=seconds)
        finally:
            self._pollers[name].discard(over)
            if not self._pollers[name]:
                del self._pollers[name]
        return await self._watch(task_id, tenant, 0.0)

    def notice(self, message: Notice) -> None:
        """Take in a notice from the mailbox: a task that somebody waits for here is over."""
        for over in self._pollers.get(message.task, ()):
            if not over.done():
                over.set_result(None)

    async def cancel(self, task_id: str, tenant: str) -> Withdrawal | None:
        """End the task if it is not over. Returns the request that the caller must withdraw. None: the task was
        over, or its request has not been sent yet; its result will then be dropped."""
        name = task_name(tenant, task_id)
        with guard():
            answer = await CANCEL(
                self._store.commands,
                self._store.keys.all_of_task(name),
                [tenant, WITHDRAWN.code, WITHDRAWN.message],
            )
        if not answer:
            raise self._unknown(task_id)
        ended, shard, key, *boxes = answer
        await tell(self._post, News(name, TaskStatus.CANCELLED, boxes, WITHDRAWN.code))
        sent = ended and key and shard.isdigit()
        return Withdrawal(int(shard), key.decode(errors="replace")) if sent else None

    async def _watch(self, task_id: str, tenant: str, seconds: float) -> TaskRecord:
        keys, name = self._store.keys, task_name(tenant, task_id)
        with guard():
            flat = await self._look(
                [keys.task(name), keys.watch(name), *keys.held(name)],
                [self._box, round(seconds * 1e3) + 60_000],
            )
        return await self._record(task_id, tenant, dict(zip(flat[::2], flat[1::2], strict=True)))

    async def _record(self, task_id: str, tenant: str, fields: Mapping[bytes, bytes]) -> TaskRecord:
        """Returns the record. A record that cannot be read is removed, because its Idempotency-Key could not be
        used before it expires."""
        if not fields:
            raise self._unknown(task_id)
        try:
            return self._read(task_id, tenant, fields)
        except (KeyError, ValueError) as error:
            why = f"{type(error).__name__}: {error}"
            self._store.aside.add("task", "the record of a task", why, repr(dict(fields)).encode())
        await self.forget(task_id, tenant)
        raise self._unknown(task_id)

    def _read(self, task_id: str, tenant: str, fields: Mapping[bytes, bytes]) -> TaskRecord:
        if fields[b"tenant"].decode() != tenant:
            raise self._unknown(task_id)
        status = TaskStatus(fields[b"status"].decode())
        key, model = fields[b"key"].decode(), fields[b"model"].decode()
        answer = None
        if status not in (TaskStatus.PENDING, TaskStatus.PROCESSING):
            request = Accepted(key, model, b"", 0.0, 0.0, 0.0, task_id, tenant=tenant, task=True)
            code, message, details = (fields[name].decode() for name in (b"code", b"message", b"details"))
            failure = Failure(code, message, details) if code else None
            execution = None if failure else decode_execution(fields.get(b"execution", b""))
            answer = Reply(request, Outcome(status.value), fields[b"output"], failure, execution)
        asked = fields.get(b"asked", b"").decode()
        return TaskRecord(task_id, tenant, key, model, status, int(fields[b"changed"]) / 1e3, answer, asked)

    def _unknown(self, task_id: str) -> NotFound:
        return no_such_task(task_id, self._ttl)


def size_of(request: Accepted) -> int:
    """Returns the bytes that a task counts for until it is over."""
    return OVERHEAD + len(request.input) + len(request.parameters)
