"""Where a worker's slots get their batches when the batchers are other processes: a slot says here that it is free,
enters the line of all idle slots, waits for its batch, and tells how the batch ended. It is `runtime.dock.Dock`
over a bus. A worker has one dock for each of its models (`worker_slots.py`), and passes on the batches that come to
its mailbox.

    free ──► it stands in the line ──► a batcher takes it ──► its batch arrives ──► done: free again, and then
                                                              outputs to the gateways, word to the batcher

A batcher may die with a slot it has taken from the line. So a slot that stays free enters the line again, once a
second and when a batcher is known to be gone. Thereby it can be taken twice. Then the second batch waits here until
the first is done.

A batcher whose batch a slot runs may hand it the next one ahead (`core.ahead`). The slot gets it at once, so that
its backend can read it, and does not enter the line in between. If it has, because the batch came too late, it
leaves the line again.

Each batcher numbers its batches for itself, so two of them may have the same number. The dock gives each batch that
arrives a number of its own, by which the slot and its backend know it. What a slot has it runs; so a batch is sent
back only if the slot never had it, or has let go of it.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from itertools import count
from typing import Protocol

from penstock.errors import BackendUnavailable, StoreDown
from penstock.loops import Loops
from penstock.ports import BatchObserver, Clock
from penstock.ports.bus import Credits
from penstock.types import Batch, Execution, Failure, Result, WarmUp, WorkerId
from penstock.words.messages import Dispatch

log = logging.getLogger("penstock.worker")

AGAIN = 1.0  # seconds after which a slot that is still free says so again
# If entering the line takes so many seconds, and so many times what is usual, the bus stood still.
STOOD_STILL, UNUSUAL = 0.2, 3.0
LATEST = 1 / 8  # the weight of the latest entering in what is usual
SOON = 0.1  # seconds after which a slot says so again that has entered the line of a bus that stood still

LAST_WORDS = 1.0  # seconds at the end in which the batchers are told of what was not told to its end

NOT_HERE = Failure(BackendUnavailable.code, "the worker was not ready when the batch arrived")

NOT_TOLD = Failure(BackendUnavailable.code, "the worker could not hand on the outputs of the batch")


class Report(Protocol):
    """What tells the end of a batch to gateways and batcher. `cluster.worker_post` implements it."""

    async def answer(self, batch: Dispatch, result: Result, execution: Execution) -> None:
        """Give every asker of a batch its output."""
        ...

    async def finished(self, batch: Dispatch, outcome: Result | Failure, seconds: float) -> None:
        """Tell the batcher that the slot is done with a batch. `seconds`: how long the slot took."""
        ...


_Order = tuple[Dispatch, Batch]  # a batch for a slot: the message that brought it, and what is run


class _Berth:
    """One slot at the dock."""

    __slots__ = (
        "model",
        "moving",
        "order",
        "owed",
        "ready",
        "started",
        "take",
        "telling",
        "waiting",
        "worker",
    )

    def __init__(self, worker: WorkerId, model: str, take: Callable[[Batch], None]) -> None:
        self.worker = worker
        self.model = model
        self.take = take  # hands the slot a batch
        self.ready = False  # whether the slot can take a batch
        self.order: _Order | None = None  # the batch that the slot has in hand
        self.waiting: deque[_Order] = deque()  # batches that come after it
        self.started = 0.0  # when the batch in hand began
        # Whether a batcher may have taken the slot from the line just before a batch came ahead, too late. That
        # batcher will send a batch for it, although the slot has entered the line again.
        self.owed = False
        # Held while the end of a batch is told, so that ends are told in their order.
        self.telling = asyncio.Lock()
        # Held while the slot enters or leaves the line, so that it does so in the order in which that was wanted.
        self.moving = asyncio.Lock()


class RemoteDock:
    """The dock of one model's slots in this process."""

    def __init__(
        self, model: str, line: Credits, report: Report, observer: BatchObserver, clock: Clock
    ) -> None:
        self._model = model
        self._line = line
        self._report = report
        self._observer = observer
        self._clock = clock
        self._berths: dict[WorkerId, _Berth] = {}
        self._numbers = count(1)  # for the batches that arrive
        self._errands = Loops()  # what is told to others, or to the line, without waiting for it
        self._entering = 0.0  # seconds that entering the line usually takes
        self._ended = asyncio.Event()  # set when a batch has ended, well or not
        self._again = asyncio.Event()  # set when free slots are to enter the line again now
        self.draining = False
        self.busy_seconds: dict[WorkerId, float] = {}  # seconds that each slot has worked in all
        self.batches: dict[WorkerId, int] = {}  # batches that each slot has run

    # ---- the slot's side ---------------------------------------------------------------------------------

    def attach(self, worker: WorkerId, take: Callable[[Batch], None]) -> None:
        self._berths[worker] = _Berth(worker, self._model, take)
        self.busy_seconds[worker] = 0.0
        self.batches[worker] = 0

    def warmed(self, worker: WorkerId, warm_up: WarmUp) -> None:
        """Do nothing: the batchers hear of warm-ups by the worker's heartbeats."""

    def ready(self, worker: WorkerId) -> None:
        self._berths[worker].ready = True
        self._soon(self._stand_in_line(worker))

    def gone(self, worker: WorkerId, back_in: float | None) -> None:
        berth = self._berths[worker]
        was_ready, berth.ready = berth.ready, False
        self._ended.set()
        if was_ready:
            self._soon(self._step_out(worker))
        if berth.order is not None:  # the slot was given the batch, and never began it
            order, berth.order = berth.order, None
            self._soon(self._tell(order[0], NOT_HERE, 0.0))
        self._refuse(berth.waiting)
        berth.waiting.clear()

    def loading(self, worker: WorkerId, takes: float | None) -> None:
        """Note that the slot loads. The batchers hear of it by the worker's next heartbeat; whatever arrives
        until it is ready goes back. What the slot was handed ahead it runs when it has loaded."""
        berth = self._berths[worker]
        berth.ready = False
        handed = [order for order in berth.waiting if order[1].ahead]
        self._refuse(order for order in berth.waiting if not order[1].ahead)
        berth.waiting = deque(handed)

    def _refuse(self, orders: Iterable[_Order]) -> None:
        for order in orders:
            self._soon(self._tell(order[0], NOT_HERE, 0.0))

    def finished(
        self, worker: WorkerId, batch_id: int, outcome: Result | Failure, *, at_once: bool = False
    ) -> None:
        berth = self._berths[worker]
        if berth.order is None and berth.waiting and berth.waiting[0][1].id == batch_id:
            # It was handed ahead, and the slot has ended it in the same turn of the loop as the one before.
            self._begin(berth, berth.waiting.popleft())
        if berth.order is None or berth.order[1].id != batch_id:
            return
        (message, batch), berth.order = berth.order, None
        self._ended.set()
        seconds = self._clock() - berth.started
        self.busy_seconds[worker] += seconds
        self.batches[worker] += 1
        if isinstance(outcome, Result) and outcome.size != batch.size:
            outcome = Failure(
                "BACKEND_FAILED",
                f"the backend gave {outcome.size} outputs for {batch.size} inputs",
                splittable=True,
            )
        told = _told(worker, batch, outcome, berth.started, seconds)
        self._observer.ended(*told)
        self._soon(self._finish(message, outcome, told[1]))
        # The slot need not wait until the end is told. Unless it says `at_once`, it first has the chance to say
        # that its backend is gone.
        if at_once:
            self._free(worker)
        else:
            asyncio.get_running_loop().call_soon(self._free, worker)

    def _free(self, worker: WorkerId) -> None:
        """Give a slot that can take a batch the one that waits for it, or put it into the line."""
        berth = self._berths[worker]
        if not berth.ready or berth.order is not None:
            return
        if berth.waiting:
            self._begin(berth, berth.waiting.popleft())
        else:
            self._soon(self._stand_in_line(worker))

    # ---- the batchers' side ------------------------------------------------------------------------------

    def arrived(self, worker: WorkerId, order: Dispatch, batch: Batch) -> None:
        """Take in a batch that has come to the mailbox: hand it to its slot, keep it for later, or send it back."""
        berth = self._berths.get(worker)
        if berth is None or not berth.ready or (order.ahead and self.draining):
            self._soon(self._tell(order, NOT_HERE, 0.0))
            return
        batch.id = next(self._numbers)
        # The slot runs batches in the order in which it gets them, so it gets none before one that waits here.
        batch.ahead = order.ahead and berth.order is not None and not berth.waiting
        if berth.order is None:
            self._begin(berth, (order, batch))
            if order.ahead or berth.owed:
                berth.owed = False
                self._soon(self._step_out(worker, late=order.ahead))
            return
        if batch.ahead:
            berth.take(batch)
        berth.waiting.append((order, batch))

    def _begin(self, berth: _Berth, order: _Order) -> None:
        berth.order = order
        berth.started = order[1].sent = self._clock()
        self._observer.sent(order[1], berth.worker)
        if not order[1].ahead:  # else the slot has it already
            berth.take(order[1])

    def in_flight(self, worker: WorkerId) -> int:
        """How many requests a slot has in hand."""
        berth = self._berths[worker]
        return 0 if berth.order is None else berth.order[1].size

    def is_ready(self, worker: WorkerId) -> bool:
        return self._berths[worker].ready

    @property
    def busy(self) -> bool:
        """Whether any slot has a batch, or anything is still to be told."""
        return bool(self._errands.errands) or any(
            berth.order or berth.waiting for berth in self._berths.values()
        )

    # ---- the loop ----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Put free slots into the line again and again, until cancelled."""
        while True:
            try:
                async with asyncio.timeout(AGAIN):
                    await self._again.wait()
            except TimeoutError:
                pass
            self._again.clear()
            for worker, berth in self._berths.items():
                if berth.ready and berth.order is None:
                    await self._stand_in_line(worker)

    def say_again(self) -> None:
        """Put free slots into the line now, since they may have been given to a batcher that has died."""
        self._again.set()

    async def drain(self) -> None:
        """Offer no slot any more. Returns when what is in hand is done."""
        self.draining = True
        for worker in self._berths:
            await self._step_out(worker)
        while self.busy:
            if self._errands.errands:
                await asyncio.wait(self._errands.errands)
            else:
                self._ended.clear()
                await self._ended.wait()

    async def close(self) -> None:
        """End what is still being told: the bus is closed next."""
        try:
            async with asyncio.timeout(LAST_WORDS):
                await self._errands.close()
        except TimeoutError:
            log.warning("the ends of batches were not told", extra={"model": self._model})

    def _soon(self, work: Coroutine[None, None, None]) -> None:
        self._errands.send(f"telling of a slot of {self._model}", work)

    async def _finish(self, message: Dispatch, outcome: Result | Failure, execution: Execution) -> None:
        """Tell the end of a batch: first to the gateways, then to the batcher, so that a success of which the
        batcher hears has been delivered. If the outputs could not be delivered, that is what it hears."""
        async with self._berths[execution.worker].telling:
            try:
                if isinstance(outcome, Result):
                    await self._report.answer(message, outcome, execution)
            except BaseException:
                outcome = NOT_TOLD
                raise
            finally:  # a batcher that hears nothing would hold the slot and its askers until the watchdog comes
                await self._report.finished(message, outcome, execution.seconds)

    async def _tell(self, message: Dispatch, outcome: Failure, seconds: float) -> None:
        await self._report.finished(message, outcome, seconds)

    async def _stand_in_line(self, worker: WorkerId) -> None:
        """Put a free slot into the line. If the line cannot be reached, `run` tries again."""
        berth = self._berths[worker]
        async with berth.moving:
            if not self._offered(berth):
                return
            began = self._clock()
            try:
                await self._line.post(self._model, worker)
            except (StoreDown, OSError) as error:
                log.debug("a slot could not say that it is free", extra={"error": str(error)})
                return
        took = self._clock() - began
        stood_still = took > max(STOOD_STILL, UNUSUAL * self._entering)
        self._entering += LATEST * (took - self._entering)
        if stood_still:
            # A batcher that waited at the line before has gone away by now. A Redis that goes on may not have
            # noticed, and give the slot to nobody.
            asyncio.get_running_loop().call_later(SOON, self.say_again)

    async def _step_out(self, worker: WorkerId, *, late: bool = False) -> None:
        """Take a slot out of the line, unless it is free again by now: a short batch may have ended meanwhile.
        `late`: the slot has got a batch ahead that came too late."""
        berth = self._berths[worker]
        async with berth.moving:
            if self._offered(berth):
                berth.owed = late
                return
            try:
                was_there = await self._line.withdraw(self._model, worker)
                berth.owed = late and not was_there
            except (StoreDown, OSError) as error:
                log.debug("a slot could not leave the line", extra={"error": str(error)})

    def _offered(self, berth: _Berth) -> bool:
        """Whether a slot is free, and so belongs into the line."""
        return berth.ready and berth.order is None and not self.draining


def _told(
    worker: WorkerId, batch: Batch, outcome: Result | Failure, started: float, seconds: float
) -> tuple[Batch, Execution, Failure | None]:
    """The execution as observers of batches are told of it."""
    failure = outcome if isinstance(outcome, Failure) else None
    execution = Execution(
        worker, batch.id, batch.size, started, seconds, sealed=batch.sealed, sent=batch.sent
    )
    if isinstance(outcome, Result):
        execution.version, execution.padding = outcome.version, outcome.padding
    return batch, execution, failure
