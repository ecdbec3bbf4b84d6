"""Requests with an Idempotency-Key, in one process. `runtime/gateway.py` asks `KeyedStore`; over a bus
`cluster/idempotency.py` takes its place.

    new key ──► the request is entered, and a `KeyedTask` receives its reply ──► over: the outcome is kept
                                                                                 for `idempotency.ttl`

Until the request is over, everyone who asks again with the key is attached to it. An asker that leaves is detached,
and the execution goes on. Once the request is over, everyone who asks again is given the outcome, if it is one that
is kept (`is_kept`). The store is bounded by number and bytes, in all and for each tenant (`penstock.share`). A
tenant's new key may push out only that tenant's oldest outcomes. If all keys of a tenant are still pending, its new
key is refused. A request whose outcome was forgotten is executed again. There is no timer: old outcomes are
forgotten when the next request with a key comes.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from penstock.core.shares import Shares
from penstock.errors import NotFound
from penstock.idempotency import Keyed, given_again, is_kept, key_reused
from penstock.ports import Asker, Leaving, Reservation
from penstock.runtime.by_tenant import ByTenant
from penstock.runtime.tasks import StoredTask
from penstock.share import refusal
from penstock.types import Reply


class KeyedTask(StoredTask):
    """The one execution of all requests with one key, and their common outcome."""

    __slots__ = ("_attached", "_first", "keyed")

    def __init__(self, store: "KeyedStore", keyed: Keyed, reserved: Reservation, now: float) -> None:
        super().__init__(store, reserved.request, now)
        self.keyed = keyed
        self._first: Asker | None = None  # the asker that came first, while it waits
        self._attached: dict[str, Reservation] = {}  # requests that asked again meanwhile, by the key of each

    @property
    def id(self) -> str:
        return self.keyed.id

    def told_to(self, first: Asker) -> Leaving:
        """Note who asked first. Returns what this asker leaves by."""
        self._first = first
        return _First(self)

    def attach(self, reserved: Reservation, asker: Asker) -> Leaving:
        """Let an asker that asks again wait for the same outcome. Returns what this asker leaves by."""
        waiter = reserved.wait(asker)
        reserved.request.input = b""  # the input is not sent anywhere
        if self.answer is None:
            self._attached[reserved.request.key] = reserved
        else:  # in a later turn of the loop, because the caller of `attach` has no `Leaving` yet
            asyncio.get_running_loop().call_soon(self._answer, reserved, self.answer)
        return _Attached(self, waiter, reserved.request.key)

    def detach(self, key: str | None = None) -> None:
        """Let an asker go that has left; None stands for the first. The execution goes on, since the asker may come
        back."""
        if key is None:
            self._first = None
        else:
            self._attached.pop(key, None)

    def reply(self, reply: Reply) -> None:
        super().reply(reply)
        attached, self._attached = self._attached, {}
        for reserved in attached.values():
            self._answer(reserved, reply)
        first, self._first = self._first, None
        if first is not None:
            first.reply(reply)

    def _answer(self, reserved: Reservation, reply: Reply) -> None:
        reserved.answer(given_again(reply, reserved.request, self.request.request_id))


class _First:
    """Lets the asker that came first leave."""

    __slots__ = ("_task",)

    def __init__(self, task: KeyedTask) -> None:
        self._task = task

    def left(self) -> None:
        self._task.detach()


class _Attached:
    """Lets an asker that asked again leave."""

    __slots__ = ("_key", "_task", "_waiter")

    def __init__(self, task: KeyedTask, waiter: Leaving, key: str) -> None:
        self._task, self._waiter, self._key = task, waiter, key

    def left(self) -> None:
        self._task.detach(self._key)
        self._waiter.left()


class KeyedStore:
    """Implements `penstock.idempotency.KeyedRequests` in one process."""

    def __init__(
        self,
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        *,
        max_keys: int,
        max_bytes: int,
        ttl: float,
        share: float = 1.0,
    ) -> None:
        """`ttl`: seconds that an outcome is kept. `share`: the part of the bounds that one tenant may fill."""
        self._clock = clock
        self._wall_clock = wall_clock
        self._settings = f"idempotency.max_keys is {max_keys} and idempotency.max_bytes is {max_bytes}"
        self._share = share
        self._shares = Shares(max_keys, max_bytes, share)
        self._ttl = ttl
        self._tasks: dict[str, KeyedTask] = {}  # all tasks, by id (`Keyed.id`)
        # The tasks that are over, the oldest first.
        self._finished: OrderedDict[str, KeyedTask] = OrderedDict()
        self._outcomes: ByTenant[KeyedTask] = ByTenant()  # the tasks that are over, by tenant

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def bytes(self) -> int:
        return self._shares.bytes

    def ask(self, keyed: Keyed, reserved: Reservation, asker: Asker) -> Leaving:
        task = self._known(keyed)
        if task is not None:
            return task.attach(reserved, asker)
        task = self._enter(keyed, reserved)
        return task.told_to(asker)

    async def ask_task(self, keyed: Keyed, reserved: Reservation) -> tuple[KeyedTask, bool]:
        task = self._known(keyed)
        return (self._enter(keyed, reserved), False) if task is None else (task, True)

    async def find(self, task_id: str, tenant: str) -> KeyedTask:
        """The task with this id. Only the tenant that made it can find it."""
        self._forget_the_old()
        task = self._tasks.get(task_id)
        if task is None or task.keyed.tenant != tenant:
            raise NotFound(
                f"no task {task_id!r}: there never was one, or its result is older than {self._ttl:g} s"
                " (idempotency.ttl)"
            )
        return task

    def _known(self, keyed: Keyed) -> KeyedTask | None:
        """The task that answers this request; None if the request is to be executed."""
        self._forget_the_old()
        task = self._tasks.get(keyed.id)
        if task is None or (task.answer is not None and not is_kept(task.answer)):
            return None
        if task.keyed != keyed:
            raise key_reused()
        return task

    def _enter(self, keyed: Keyed, reserved: Reservation) -> KeyedTask:
        before = self._tasks.get(keyed.id)
        if before is not None:  # the execution of a task whose outcome is not kept
            self.forget(before)
        task = KeyedTask(self, keyed, reserved, self._wall_clock())
        while (full := self._shares.full(keyed.tenant, task.size)) is not None:
            oldest = self._outcomes.oldest(keyed.tenant)
            if oldest is None:
                things = "requests with an Idempotency-Key"
                raise refusal(full, things, self._settings, self._share, reserved.backlog_seconds())
            self.forget(oldest)
        task.entered(reserved.enter(task))
        self._tasks[keyed.id] = task
        self._shares.take(keyed.tenant, task.size)
        return task

    # ---- for the tasks -------------------------------------------------------------------------------------

    def finish(self, task: StoredTask, reply: Reply) -> None:
        """Keep the outcome of a key. Older outcomes of its tenant make room for it."""
        assert isinstance(task, KeyedTask)
        before, tenant = task.size, task.keyed.tenant
        task.keep(reply)
        self._shares.grow(tenant, task.size - before)
        task.changed_at = self._wall_clock()
        task.when = self._clock() + self._ttl
        self._finished[task.id] = task
        self._outcomes.add(tenant, task.id, task)
        while self._shares.overgrown(tenant) is not None:  # if need be, even this task is forgotten
            oldest = self._outcomes.oldest(tenant)
            if oldest is None:
                break
            self.forget(oldest)

    def fetched(self, task: StoredTask) -> None:
        """Do nothing: a key is kept for its time, whether or not its outcome was read."""

    def forget(self, task: StoredTask) -> None:
        """Drop a key whose task is over."""
        if self._finished.pop(task.id, None) is not None:
            assert isinstance(task, KeyedTask)
            del self._tasks[task.id]
            self._outcomes.drop(task.keyed.tenant, task.id)
            self._shares.give(task.keyed.tenant, task.size)

    def _forget_the_old(self) -> None:
        now = self._clock()
        while self._finished:
            oldest = next(iter(self._finished.values()))
            if oldest.when > now:
                break
            self.forget(oldest)
