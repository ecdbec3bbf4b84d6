"""Where a worker's slots get their batches when the batchers are elsewhere.

    free ──► it stands in the line ──► a batcher takes it ──► its batch arrives ──► done: free again, and then
                                                              outputs to the gateways, word to the batcher

A batcher may die with a slot it has taken from the line. So a slot that stays free says so again, once a second and
when a batcher is known to be gone. It can thereby be taken twice: the second batch waits here for the first.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Protocol

from penstock.errors import BackendUnavailable, StoreDown
from penstock.loops import Loops
from penstock.ports import BatchObserver, Clock
from penstock.ports.bus import Credits
from penstock.types import Batch, Execution, Failure, Result, WorkerId
from penstock.words.messages import Dispatch

log = logging.getLogger("penstock.worker")

AGAIN = 1.0  # seconds after which a slot that is still free says so again

NOT_HERE = Failure(BackendUnavailable.code, "the worker was not ready when the batch arrived")


class Report(Protocol):
    """How a batch's end is told: `cluster.worker_post`."""

    async def answer(self, batch: Dispatch, result: Result, seconds: float, worker: str) -> None: ...

    async def finished(self, batch: Dispatch, outcome: Result | Failure, seconds: float) -> None: ...


class _Place:
    """One slot."""

    __slots__ = ("model", "order", "ready", "started", "take", "waiting", "worker")

    def __init__(self, worker: WorkerId, model: str, take: Callable[[Batch], None]) -> None:
        self.worker = worker
        self.model = model
        self.take = take
        self.ready = False
        self.order: tuple[Dispatch, Batch] | None = None  # in hand
        self.waiting: deque[tuple[Dispatch, Batch]] = deque()
        self.started = 0.0


class RemoteDock:
    def __init__(
        self, model: str, line: Credits, report: Report, observer: BatchObserver, clock: Clock
    ) -> None:
        self._model = model
        self._line = line
        self._report = report
        self._observer = observer
        self._clock = clock
        self._places: dict[WorkerId, _Place] = {}
        self._errands = Loops()
        self._ended = asyncio.Event()  # a batch, well or not
        self._again = asyncio.Event()
        self.draining = False
        self.busy_seconds: dict[WorkerId, float] = {}
        self.batches: dict[WorkerId, int] = {}

    # ---- the slot's side ---------------------------------------------------------------------------------

    def attach(self, worker: WorkerId, take: Callable[[Batch], None]) -> None:
        self._places[worker] = _Place(worker, self._model, take)
        self.busy_seconds[worker] = 0.0
        self.batches[worker] = 0

    def ready(self, worker: WorkerId) -> None:
        self._places[worker].ready = True
        self._soon(self._stand_in_line(worker))

    def gone(self, worker: WorkerId, back_in: float | None) -> None:
        place = self._places[worker]
        was_ready, place.ready = place.ready, False
        self._ended.set()
        if was_ready:
            self._soon(self._step_out(worker))
        if place.order is not None:  # given to it, and never begun
            order, place.order = place.order, None
            self._soon(self._tell(order[0], NOT_HERE, 0.0))
        self._refuse_waiting(place)

    def loading(self, worker: WorkerId, takes: float | None) -> None:
        """The batchers hear of it by the worker's next heartbeat; whatever arrives until it is ready goes back."""
        place = self._places[worker]
        place.ready = False
        self._refuse_waiting(place)

    def _refuse_waiting(self, place: _Place) -> None:
        for order in place.waiting:
            self._soon(self._tell(order[0], NOT_HERE, 0.0))
        place.waiting.clear()

    def finished(
        self, worker: WorkerId, batch_id: int, outcome: Result | Failure, *, at_once: bool = False
    ) -> None:
        place = self._places[worker]
        if place.order is None or place.order[1].id != batch_id:
            return
        (message, batch), place.order = place.order, None
        self._ended.set()
        seconds = self._clock() - place.started
        self.busy_seconds[worker] += seconds
        self.batches[worker] += 1
        if isinstance(outcome, Result) and outcome.size != batch.size:
            outcome = Failure(
                "BACKEND_FAILED",
                f"the backend gave {outcome.size} outputs for {batch.size} inputs",
                splittable=True,
            )
        self._observer.ended(*_told(worker, batch, outcome, place.started, seconds))
        self._soon(self._finish(worker, message, outcome, seconds))
        # It need not wait until that is told, but until it has had the chance to say that its backend is gone.
        if at_once:
            self._free(worker)
        else:
            asyncio.get_running_loop().call_soon(self._free, worker)

    def _free(self, worker: WorkerId) -> None:
        place = self._places[worker]
        if not place.ready or place.order is not None:
            return
        if place.waiting:
            self._begin(place, place.waiting.popleft())
        else:
            self._soon(self._stand_in_line(worker))

    # ---- the batchers' side ------------------------------------------------------------------------------

    def arrived(self, worker: WorkerId, order: Dispatch, batch: Batch) -> None:
        place = self._places.get(worker)
        if place is None or not place.ready:
            self._soon(self._tell(order, NOT_HERE, 0.0))
        elif place.order is not None:
            place.waiting.append((order, batch))
        else:
            self._begin(place, (order, batch))

    def _begin(self, place: _Place, order: tuple[Dispatch, Batch]) -> None:
        place.order = order
        place.started = order[1].sent = self._clock()
        self._observer.sent(order[1], place.worker)
        place.take(order[1])

    def in_flight(self, worker: WorkerId) -> int:
        place = self._places[worker]
        return 0 if place.order is None else place.order[1].size

    def is_ready(self, worker: WorkerId) -> bool:
        return self._places[worker].ready

    @property
    def busy(self) -> bool:
        return bool(self._errands.errands) or any(
            place.order or place.waiting for place in self._places.values()
        )

    # ---- the loop ----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled: those who are free say so again."""
        while True:
            try:
                async with asyncio.timeout(AGAIN):
                    await self._again.wait()
            except TimeoutError:
                pass
            self._again.clear()
            for worker, place in self._places.items():
                if place.ready and place.order is None:
                    await self._stand_in_line(worker)

    def say_again(self) -> None:
        """A batcher has died: those who are free say so now."""
        self._again.set()

    async def drain(self) -> None:
        """Nobody is offered any more; returns when what is in hand is done."""
        self.draining = True
        for worker in self._places:
            await self._step_out(worker)
        while self.busy:
            if self._errands.errands:
                await asyncio.wait(self._errands.errands)
            else:
                self._ended.clear()
                await self._ended.wait()

    async def close(self) -> None:
        """Nothing more is told: the bus is closed next."""
        await self._errands.close()

    def _soon(self, work: Coroutine[None, None, None]) -> None:
        self._errands.send(f"telling of a slot of {self._model}", work)

    async def _finish(
        self, worker: WorkerId, message: Dispatch, outcome: Result | Failure, seconds: float
    ) -> None:
        """First to those who ask, then to the batcher: a success it hears of has been delivered."""
        try:
            if isinstance(outcome, Result):
                await self._report.answer(message, outcome, seconds, worker)
        finally:  # a batcher that hears nothing would hold the slot, and its askers, until the watchdog comes
            await self._report.finished(message, outcome, seconds)

    async def _tell(self, message: Dispatch, outcome: Failure, seconds: float) -> None:
        await self._report.finished(message, outcome, seconds)

    async def _stand_in_line(self, worker: WorkerId) -> None:
        """A line that cannot be reached is tried again by `run`."""
        place = self._places[worker]
        if place.ready and place.order is None and not self.draining:
            try:
                await self._line.post(self._model, worker)
            except (StoreDown, OSError) as error:
                log.debug("a slot could not say that it is free", extra={"error": str(error)})

    async def _step_out(self, worker: WorkerId) -> None:
        try:
            await self._line.withdraw(self._model, worker)
        except (StoreDown, OSError) as error:
            log.debug("a slot could not leave the line", extra={"error": str(error)})


def _told(
    worker: WorkerId, batch: Batch, outcome: Result | Failure, started: float, seconds: float
) -> tuple[Batch, Execution, Failure | None]:
    """As an observer of batches is told of it."""
    failure = outcome if isinstance(outcome, Failure) else None
    version = outcome.version if isinstance(outcome, Result) else ""
    return batch, Execution(worker, batch.id, batch.size, started, seconds, version, sent=batch.sent), failure
