"""Batches to workers, and what becomes of them back to those who ask.

    batcher ──dispatch──► worker ──answers, one message for each gateway──► gateway
       │  ◄──finished────────┘      (results of tasks into their records)      ▲
       └──────────refused, expired, given up: one message for each gateway─────┘

A message may arrive twice and never half: whoever waits takes the first. That the receiver is gone is no
error: a dead gateway's askers have left, and a dead worker's batch is dispatched again.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.adapters.redis.bus.mailbox import Post
from penstock.adapters.redis.bus.wire import (
    Answers,
    Dispatch,
    Ending,
    Failed,
    Finished,
    ItemFailure,
    Member,
    encode,
    encode_execution,
)
from penstock.adapters.redis.link.connect import Store
from penstock.adapters.redis.link.names import task_name
from penstock.adapters.redis.records.task_endings import Ended, Outcomes
from penstock.loops import Loops
from penstock.types import Accepted, Failure, Outcome, Reply, Result

log = logging.getLogger("penstock.dispatch")


class Dispatched(Protocol):
    """A batch whose requests say which gateway waits for them."""

    @property
    def id(self) -> int: ...

    @property
    def model(self) -> str: ...

    @property
    def parameters(self) -> bytes: ...

    @property
    def limit(self) -> float: ...

    @property
    def requests(self) -> Sequence[Accepted]: ...


class Dispatcher:
    """The batcher's half. Its calls never wait: what they have to say is sent in order by `run`."""

    def __init__(self, store: Store, post: Post, me: str) -> None:
        """`me`: the mailbox for what workers have finished."""
        self._post = post
        self._me = me
        self._outcomes = Outcomes(store, post)
        self._clustered = store.clustered
        self._lanes: dict[str, list[tuple[str, bytes]]] = {}  # each with a task that empties it
        self._endings: list[Ended] = []
        self._started: list[str] = []  # tasks
        self._tasks_due = asyncio.Event()
        self._recording = False
        self._progress = asyncio.Event()
        self._loops: Loops | None = None
        self.on_undelivered: Callable[[str], None] = lambda box: None  # a mailbox that takes no more

    async def flush(self) -> None:
        """Return when everything has been sent and stored. `run` must be running."""
        while self._lanes or self._endings or self._recording:
            self._progress.clear()
            await self._progress.wait()

    def send(self, worker_box: str, slot: str, batch: Dispatched) -> None:
        members = [
            Member(r.key, r.gateway, r.input, task_name(r.tenant, r.request_id) if r.task else "", r.tenant)
            for r in batch.requests
        ]
        message = Dispatch(batch.id, self._me, slot, batch.model, batch.parameters, members, batch.limit)
        self._put(worker_box, encode(message))
        started = [member.task for member in members if member.task]
        if started:
            self._started += started
            self._tasks_due.set()

    def answer(self, replies: Sequence[Reply]) -> None:
        """Tell the askers of everything that is not a success: those have had theirs from the worker."""
        shared: defaultdict[str, dict[tuple[Outcome, Failure], list[str]]] = defaultdict(dict)
        for reply in replies:
            if reply.outcome is Outcome.SUCCESS:
                continue
            request, failure = reply.request, reply.failure
            assert failure is not None
            if request.task:
                name = task_name(request.tenant, request.request_id)
                self._endings.append(Ended(name, reply.outcome, failure=failure))
                self._tasks_due.set()
            else:
                keys = shared[request.gateway].setdefault((reply.outcome, failure), [])
                keys.append(request.key)
        for gateway, groups in shared.items():
            endings = [
                Ending(keys, outcome, failure.code, failure.message, failure.details, failure.retry_after)
                for (outcome, failure), keys in groups.items()
            ]
            self._put(gateway, encode(Failed(endings)))

    def refuse(self, gateway: str, keys: Sequence[str], failure: Failure) -> None:
        """Requests of which no more is known than who waits for them."""
        ending = Ending(
            list(keys), Outcome.FAILED, failure.code, failure.message, failure.details, failure.retry_after
        )
        self._put(gateway, encode(Failed([ending])))

    # ---- the loop ----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled."""
        async with Loops() as self._loops:
            for lane in self._lanes:
                self._loops.send("sending messages", self._empty(lane))
            self._loops.keep("keeping records", self._keep_records)

    def _put(self, box: str, payload: bytes) -> None:
        """In a cluster each mailbox has a lane of its own: a lost node must hold up nobody else's messages."""
        lane = box if self._clustered else ""
        waiting = self._lanes.get(lane)
        if waiting is not None:
            waiting.append((box, payload))
            return
        self._lanes[lane] = [(box, payload)]
        if self._loops is not None:
            self._loops.send("sending messages", self._empty(lane))

    async def _empty(self, lane: str) -> None:
        while messages := self._lanes[lane]:
            self._lanes[lane] = []
            try:
                sent = await _sent(self._post, messages)
            except BaseException:
                self._lanes[lane][:0] = messages  # `run` begins with them when it is started again
                raise
            for (box, _), arrived in zip(messages, sent, strict=True):
                if not arrived:
                    self._undelivered(box)
        del self._lanes[lane]
        self._progress.set()

    def _undelivered(self, box: str) -> None:
        try:
            self.on_undelivered(box)
        except Exception:
            log.exception(
                "a mailbox that takes no more was not given up"
            )  # the other messages go all the same

    async def _keep_records(self) -> None:
        while True:
            await self._tasks_due.wait()
            self._tasks_due.clear()
            self._recording = True
            started, self._started = self._started, []
            endings, self._endings = self._endings, []
            try:
                if started:
                    await self._outcomes.processing(started)
                if endings:
                    await self._outcomes.settle(endings)
            finally:
                self._recording = False
                self._progress.set()


class WorkerPost:
    """The worker's half. Each call returns when its messages are sent, or nobody is there to have them."""

    def __init__(self, store: Store, post: Post) -> None:
        self._post = post
        self._outcomes = Outcomes(store, post)

    async def answer(self, batch: Dispatch, result: Result, seconds: float, worker: str) -> None:
        """To every asker its output; there must be one for each member that did not fail."""
        keys: defaultdict[str, list[str]] = defaultdict(list)
        outputs: defaultdict[str, list[bytes]] = defaultdict(list)
        endings = []
        size = len(batch.members)
        execution = encode_execution(worker, batch.batch_id, size, seconds, result.version)
        failures = result.failures or {}  # the batcher tells those
        for place, (member, output) in enumerate(zip(batch.members, result.outputs, strict=True)):
            if place in failures:
                continue
            if member.task:
                endings.append(Ended(member.task, Outcome.SUCCESS, output, execution=execution))
            else:
                keys[member.gateway].append(member.key)
                outputs[member.gateway].append(output)
        messages = [
            (
                gateway,
                encode(
                    Answers(
                        keys[gateway],
                        outputs[gateway],
                        worker,
                        batch.batch_id,
                        size,
                        seconds,
                        result.version,
                    )
                ),
            )
            for gateway in keys
        ]
        await self._send(messages)
        if endings:
            await self._outcomes.settle(endings)

    async def finished(self, batch: Dispatch, outcome: Result | Failure, seconds: float) -> None:
        """To the batcher: the slot has done with it. After `answer`, so that a success has been delivered."""
        if isinstance(outcome, Failure):
            message = Finished(
                batch.slot, batch.batch_id, 0, seconds, "",
                outcome.code, outcome.message, outcome.details, outcome.splittable,
            )  # fmt: skip
        else:
            failed = [
                ItemFailure(place, failure.code, failure.message, failure.details)
                for place, failure in (outcome.failures or {}).items()
            ]
            message = Finished(
                batch.slot, batch.batch_id, len(outcome.outputs), seconds, outcome.version,
                executed=outcome.executed, failed=failed,
            )  # fmt: skip
        await self._send([(batch.batcher, encode(message))])

    async def _send(self, messages: Sequence[tuple[str, bytes]]) -> None:
        if messages:
            await _sent(self._post, messages)


async def _sent(post: Post, messages: Sequence[tuple[str, bytes]]) -> list[bool]:
    """Whether each was. If Redis is away for so long that this fails, the askers have been told it is too late."""
    try:
        return await post.send_all(messages)
    except Exception as error:
        log.error("messages were not sent", extra={"messages": len(messages), "error": str(error)})
        return [False] * len(messages)
