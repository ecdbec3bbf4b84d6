"""Sends a batcher's batches to workers, and its refusals and failures to the gateways. Each batcher
(`cluster/batcher.py`) has one `Dispatcher`, and hands it what its pumps (one for each model) decide.

    batcher ──dispatch──► worker ──answers, one message for each gateway──► gateway
       │  ◄──finished────────┘      (results of tasks into their records)      ▲
       └──────────refused, expired, given up: one message for each gateway─────┘

A message may arrive twice, and never in part; the receiver takes the first. It is no error if the receiver is gone:
a dead gateway's askers have left, and a dead worker's batch is dispatched again.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.cluster.sending import sent
from penstock.core.queued import Sealed
from penstock.errors import StoreDown
from penstock.loops import Loops
from penstock.patience import Patience
from penstock.ports import Clock
from penstock.ports.bus import Post
from penstock.ports.tasks import Ended, TaskEndings
from penstock.types import Attempt, Failure, Outcome, Reply, Request
from penstock.words.messages import Ending, Failed, encode, encode_dispatch, member_of, task_name, tried_of

log = logging.getLogger("penstock.dispatch")

AGAIN = 0.5  # seconds until the next try, if not all endings were stored
PAUSE = 0.1  # seconds until messages are sent whose sending was cut short

Ends = tuple[Outcome, Failure, tuple[Attempt, ...]]  # what requests have in common that share an ending


class Message(NamedTuple):
    """What is to be sent, and to whom."""

    box: str
    payload: bytes
    slot: str = ""  # the slot, and the number of the batch, that it brings; if it is a batch
    batch: int = 0


class Dispatcher:
    """Sends what one batcher has to say. Its calls never wait: `run` sends their messages, in order."""

    def __init__(self, post: Post, endings: TaskEndings, me: str, clock: Clock) -> None:
        """`me`: the mailbox in which workers tell what they have finished."""
        self._clock = clock
        self._post = post
        self._me = me
        self._records = endings
        # Messages that are to be sent. While `run` is running, every queue is being emptied.
        self._queues: dict[str, list[Message]] = {}
        self._sending: dict[
            str, asyncio.Task[None]
        ] = {}  # by queue, the task that empties it, or did so last
        # By the key of a task's request: how it ended, until its record says so.
        self._endings: dict[str, tuple[Ended, Request]] = {}
        self._started: list[str] = []  # tasks whose batch was sent, and whose records do not say so yet
        self._tasks_due = asyncio.Event()  # set when records are to be written
        self._progress = asyncio.Event()  # set when a queue is empty, or endings were recorded
        self._loops: Loops | None = None
        # Called with a mailbox that takes no more.
        self.on_undelivered: Callable[[str], None] = lambda box: None
        # Called with a slot and the number of a batch that may not have reached it.
        self.on_unsent: Callable[[str, int], None] = lambda slot, batch: None
        # Called with tasks, once their records say how they ended.
        self.on_recorded: Callable[[Sequence[Request]], None] = lambda requests: None

    async def flush(self) -> None:
        """Return when everything has been sent and stored. `run` must be running."""
        while self._queues or self._endings:
            self._progress.clear()
            await self._progress.wait()

    def send(self, worker_box: str, slot: str, batch: Sealed) -> None:
        """Send a batch to a slot. `worker_box`: the mailbox of the slot's process."""
        tasks = [task_name(r.tenant, r.request_id) if r.task else "" for r in batch.requests]
        members = [member_of(request, task) for request, task in zip(batch.requests, tasks, strict=True)]
        # A retry is made of members of one failed batch, so all of them have the same history.
        history = batch.requests[0].history if batch.retry else ()
        payload = encode_dispatch(batch, self._me, slot, members, history)
        self._put(Message(worker_box, payload, slot, batch.id))
        if started := [task for task in tasks if task]:
            self._started += started
            self._tasks_due.set()

    def answer(self, replies: Sequence[Reply]) -> Sequence[Request]:
        """Send the gateways all replies but successes, which they have from the worker. Returns the tasks whose
        ending is yet to be recorded; `on_recorded` is called when it is."""
        unrecorded: list[Request] = []
        shared: defaultdict[str, dict[Ends, list[str]]] = defaultdict(dict)
        for reply in replies:
            if reply.outcome is Outcome.SUCCESS:
                continue
            request, failure = reply.request, reply.failure
            assert failure is not None
            if request.task:
                name = task_name(request.tenant, request.request_id)
                self._endings[request.key] = Ended(name, reply.outcome, failure=failure), request
                unrecorded.append(request)
                self._tasks_due.set()
            else:
                ends = reply.outcome, failure, request.history
                keys = shared[request.gateway].setdefault(ends, [])
                keys.append(request.key)
        now = self._clock()
        for gateway, groups in shared.items():
            endings = [
                Ending.of(keys, outcome, failure, tried_of(history, now))
                for (outcome, failure, history), keys in groups.items()
            ]
            self._put(Message(gateway, encode(Failed(endings))))
        return unrecorded

    def refuse(self, gateway: str, keys: Sequence[str], failure: Failure) -> None:
        """Refuse requests that could not be read, whose keys and gateway are known all the same."""
        ending = Ending.of(list(keys), Outcome.FAILED, failure, [])
        self._put(Message(gateway, encode(Failed([ending]))))

    # ---- the loop ----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Send and store until cancelled."""
        async with Loops() as self._loops:
            for queue in self._queues:
                self._start_sending(queue)
            self._loops.keep("keeping records", self._keep_records)

    def _put(self, message: Message) -> None:
        """Put a message into its queue. If mailboxes are apart, each has a queue of its own, so that a lost node,
        or a lost packet on a long way, holds up nobody else's messages. What waits in another queue goes before."""
        alone = message.box in self._queues or (self._post.apart and "" not in self._queues)
        queue = message.box if alone else ""
        waiting = self._queues.get(queue)
        if waiting is not None:
            waiting.append(message)
            return
        self._queues[queue] = [message]
        if self._loops is not None:
            self._start_sending(queue)

    def _start_sending(self, queue: str, after: float = 0.0) -> None:
        loops = self._loops
        assert loops is not None
        sending = self._sending[queue] = loops.send("sending messages", self._empty(queue, after))
        sending.add_done_callback(lambda task: self._sending_ended(queue, task, loops))

    def _sending_ended(self, queue: str, task: "asyncio.Task[None]", loops: Loops) -> None:
        """Go on if the sending was cut short, although this dispatcher goes on. If the queue was emptied and has
        been filled anew since, another task empties it already."""
        if self._sending.get(queue) is not task:
            return
        if queue in self._queues and loops is self._loops and not loops.closed:
            self._start_sending(queue, PAUSE)
        else:
            del self._sending[queue]

    async def _empty(self, queue: str, after: float) -> None:
        """Send the messages of a queue until it is empty. `after`: seconds to wait before."""
        if after:
            await asyncio.sleep(after)
        while messages := self._queues[queue]:
            self._queues[queue] = []
            try:
                arrivals = await sent(self._post, [(each.box, each.payload) for each in messages])
            except BaseException:
                self._queues[queue][:0] = messages  # whoever sends next begins with them
                raise
            for message, arrived in zip(messages, arrivals, strict=True):
                if not arrived:
                    self._undelivered(message, gone=arrived is False)
        del self._queues[queue]
        self._progress.set()

    def _undelivered(self, message: Message, *, gone: bool) -> None:
        """Tell of a message that was not sent. `gone`: the mailbox takes no more; else the bus was away."""
        try:
            if gone:
                self.on_undelivered(message.box)
            elif message.slot:
                self.on_unsent(message.slot, message.batch)
        except Exception:
            # The messages to other mailboxes must be sent all the same.
            log.exception("a message that was not sent was not given up")

    async def _keep_records(self) -> None:
        """Write into the records which tasks were sent, and how tasks ended. While the records cannot be reached,
        this waits."""
        patience = Patience("The dispatcher")
        while True:
            await self._tasks_due.wait()
            self._tasks_due.clear()
            wait = 0.0
            try:
                if not await self._record_endings():
                    wait = AGAIN
                started, self._started = self._started, []
                if started:
                    await self._records.processing(started)  # only people see this, so it is tried once
                patience.succeeded()
            except StoreDown as error:
                wait = patience.failed(error)
            except BaseException:
                self._tasks_due.set()  # `run` begins with them when it is started again
                raise
            if wait:
                await asyncio.sleep(wait)
                self._tasks_due.set()

    async def _record_endings(self) -> bool:
        """Store the endings of tasks. Returns whether all are stored."""
        due = list(self._endings.values())
        if not due:
            return True
        left = {each.task for each in await self._records.settle([ended for ended, _ in due])}
        recorded = [request for ended, request in due if ended.task not in left]
        for request in recorded:
            del self._endings[request.key]
        self.on_recorded(recorded)
        self._progress.set()
        return not left
