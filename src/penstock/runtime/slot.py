"""One worker slot: a backend kept alive, and handed one batch at a time.

Each worker of a model is one slot: in `penstock serve` (`roles/model.py`) or in a process of `penstock worker`
(`cluster/worker_slots.py`). A loop of the process runs `run`. Its `Dock` gives it batches by `take` and is told how
each ended. Nobody else calls the backend. Its parts: `starting.py` starts backends, `handed.py` has its batches,
`executor.py` runs one, `loading.py` notices that a first batch takes long, `vitals.py` knows how the backend is.

start ──warmed up──► wait for a batch ──► run it ──► wait …
  ▲  back-off            │ idle: probe       │ fatal: close
  └──────────────────────┴───────────────────┘

- While a slot runs a batch it may be handed the next one. A backend that can get that ready is given it at once;
  its time begins when the batch before it has ended.
- A backend's first batch may take long: it may have to load or to compile. The batcher is told after a second, as
  it is of a warm-up.
- A backend that is busy (an endpoint that answers 429) takes nothing for as long as it says. Its batch goes back.
- A backend that refuses batch after batch is given an input that was answered before. If it refuses that too it is
  started anew. Otherwise the inputs were to blame, and there is no restart.
- A backend that says it is nearly full takes no batch until it has said that it has room again.
"""

import asyncio
import gc
import logging
from collections.abc import Callable, Sequence
from zlib import crc32

from penstock.core.backoff import backoff
from penstock.errors import BackendError
from penstock.ports import Backend, Clock
from penstock.runtime.collapse.once_each import Sameness
from penstock.runtime.dock import Dock
from penstock.runtime.executor import Ended, Executor, wants_it_later
from penstock.runtime.first_batches import FirstBatches
from penstock.runtime.fit import is_too_large
from penstock.runtime.handed import Handed
from penstock.runtime.idle_ladder import QUIET
from penstock.runtime.known_good import KnownGood
from penstock.runtime.limit import Limit
from penstock.runtime.loading import Loading
from penstock.runtime.padding import Padding
from penstock.runtime.starting import Starting
from penstock.runtime.vitals import Vitals
from penstock.runtime.warm_up import Warmer
from penstock.runtime.warmth import Warmth
from penstock.types import Batch, Failure, Result, WarmUp, WorkerId

log = logging.getLogger("penstock.worker")

FIRST_RESTART, LONGEST_RESTART = 0.1, 5.0  # seconds before the first restart, and before any
STABLE = 10.0  # seconds: a backend that has run so long, or a batch well, is forgiven its past restarts
SICK = 6  # batches failed in a row: enough for its breaker to open, and for it to fail its probation too
SICK_AGAIN = 48  # `SICK` doubles each time that the backend is found well, up to this


class Slot:
    def __init__(
        self,
        worker: WorkerId,
        backend: Backend,
        dock: Dock,
        clock: Clock,
        *,
        processing_limit: float,
        first_batch_limit: float,
        start_limit: float,
        health_interval: float,
        on_started: Callable[[WorkerId, BackendError | None], None],
        version: str = "",
        warm: bool = False,
        first_batches: FirstBatches | None = None,
        sameness: Sameness | None = None,
        known_good: KnownGood | None = None,
        padding: Padding | None = None,
        warmer: Warmer | None = None,
        idle_sizes: Sequence[int] = (),
    ) -> None:
        """`processing_limit`: for a batch that brings no limit of its own. `warm`: a first batch is like any other.
        `first_batches`, `known_good`, `warmer`: what all slots of a model share. `sameness`: says which requests
        are the same; the backend is given one of them. `padding`: fills up batches to an allowed size.
        `idle_sizes`: the sizes that are run in idle moments."""
        self.worker = worker
        self.backend = backend
        self._dock = dock
        self._clock = clock
        self.processing_limit = processing_limit
        self._warm = warm
        self._first_batches = first_batches or FirstBatches()
        self._known_good = known_good or KnownGood()
        self.warmth = Warmth(
            worker, dock, clock, warmer, idle_sizes, self._known_good, step_limit=first_batch_limit
        )
        self._vitals = Vitals(worker, dock, clock)
        self._loading = Loading(worker, dock, clock, self._first_batches)
        self._executor = Executor(
            worker, clock, self._loading, self._first_batches, first_batch_limit, sameness, padding
        )
        self._on_started = on_started  # told of each start, and how it failed if it did
        self._version = version  # the model's version, where the backend does not tell
        self.version = version  # the version of the model that ran last
        self._health_interval = health_interval
        self._idle = Limit(health_interval)
        self._held_up = 0.0  # seconds that the next batch has waited for a step of the idle ladder
        self._handed = Handed(lambda batch: self._executor.run(self.backend, batch), self._may_run_ahead)
        self._starting = Starting(clock, start_limit, self.warmth, self._loading, self._first_batches)
        self.restarts = 0
        dock.attach(worker, self._handed.take)
        dock.gone(worker, None)

    @property
    def runs_ahead(self) -> bool:
        """Whether the backend can get a batch ready while it runs another."""
        return bool(getattr(self.backend, "runs_ahead", False))

    @property
    def pressure(self) -> float:
        """How full the backend last said it is."""
        return self._vitals.pressure

    @property
    def full(self) -> bool:
        """Whether it takes nothing, since its backend said that it is full, or busy."""
        return self._vitals.full

    @property
    def last_error(self) -> str:
        return self._vitals.last_error

    @property
    def loading(self) -> bool:
        """Whether its first batch takes long, or its warm-up."""
        return self._loading.now

    @property
    def first_seconds(self) -> float | None:
        """How long a first batch takes, as far as is known."""
        return self._first_batches.longest

    def _may_run_ahead(self) -> bool:
        return self._executor.answered and self._starting.successor is None and self.runs_ahead

    async def prepare(self, backend: Backend) -> WarmUp | None:
        """Start a backend that is to take over, and warm it up. Raises BackendError; it is then closed."""
        return await self._starting.prepare(backend)

    def renew(self, backend: Backend, warm_up: WarmUp | None = None) -> Backend | None:
        """Let another backend, which was prepared, take over: after the batch in hand, and before the next. Returns
        a backend that was still waiting to take over, if any, for the caller to close."""
        waited = self._starting.succeed(backend, warm_up)
        self._handed.wake()  # an idle slot need not wait for a batch
        return waited

    async def _take_over(self) -> None:
        successor = self._starting.take_successor()
        if successor is not None:
            old, (self.backend, warm_up) = self.backend, successor
            self._vitals.began()
            self._began(warm_up)
            await old.close()

    def _began(self, warm_up: WarmUp | None) -> None:
        self._executor.began(warm=self._warm or warm_up is not None)
        self.warmth.began(warm_up)

    async def run(self) -> None:
        """Start the backend and serve, until cancelled."""
        failures = 0
        # An earlier run that failed may have left a batch in hand, which goes to another slot.
        self._handed.forget()
        self._loading.over()
        try:
            while True:
                if await self._start():
                    since = self._clock()
                    succeeded = await self._serve()
                    failures = 0 if succeeded or self._clock() - since > STABLE else failures
                await self.backend.close()
                gc.collect()  # what a backend leaves behind hangs together in cycles, and the next one is as large
                failures += 1
                self.restarts += 1
                await self._pause(failures)
        finally:
            self._handed.forget()
            self._idle.close()
            self._executor.close()
            await self._take_over()
            await self.backend.close()

    async def _start(self) -> bool:
        began = self._clock()
        self._dock.gone(self.worker, self._starting.took)
        try:
            if self._starting.successor is None:
                self._began(await self._starting.start(self.backend))
            await self._take_over()
        except BackendError as error:
            self._vitals.did_not_start(error.message)
            self._on_started(self.worker, error)
            return False
        seconds = self._clock() - began
        self._starting.succeeded(seconds)
        log.info("worker ready", extra={"worker": self.worker, "seconds": round(seconds, 3)})
        if not self.full:
            self._vitals.began()
            self._dock.ready(self.worker)
        self._on_started(self.worker, None)
        return True

    async def _pause(self, failures: int) -> None:
        wait = backoff(failures, FIRST_RESTART, LONGEST_RESTART, crc32(self.worker.encode()))
        known = self._starting.took
        self._dock.gone(self.worker, None if known is None else wait + known)
        await asyncio.sleep(wait)

    async def _serve(self) -> bool:
        """Run batch after batch, until the backend must be started anew. Returns whether any of them succeeded.

        A backend that lives and fails everything (its GPU in an error state, its memory leaked away) is as
        good as dead: only a new one can help.
        """
        succeeded, failed_in_a_row, busy_in_a_row, too_many = False, 0, 0, SICK
        while self._handed.given or await self._has_room():
            running: asyncio.Task[Result] | None = None
            if self._handed.given:
                batch, running = self._handed.next_given()
            else:
                await self._take_over()
                next_batch = await self._next_batch()
                if next_batch is None:
                    if not await self._use_idle_time():
                        break
                    continue
                batch = next_batch
            held_up, self._held_up = self._held_up, 0.0
            self._handed.begins()
            outcome, fatal = await self._execute(batch, running)
            self._handed.ended()
            if isinstance(outcome, Result) and outcome.size == batch.size:
                succeeded, failed_in_a_row, busy_in_a_row, too_many = True, 0, 0, SICK
                outcome.held_up += held_up
                self._known_good.note(batch, outcome)
                self.warmth.answered(batch, outcome)
            elif wants_it_later(outcome):
                self._dock.finished(self.worker, batch.id, outcome)
                busy_in_a_row += 1
                await self._let_rest(outcome, busy_in_a_row)
                continue
            elif is_too_large(outcome, batch.size):
                self.warmth.fit.is_below(batch.size)  # smaller batches will tell whether it is sick
            else:
                failed_in_a_row += 1
            leaves = fatal
            if failed_in_a_row >= too_many and not fatal and not self._handed.given:
                leaves = await self._is_sick(batch)
                failed_in_a_row, too_many = 0, min(SICK_AGAIN, 2 * too_many)
            takes_more = not leaves and not self.loading and self._vitals.has_room
            self._dock.finished(self.worker, batch.id, outcome, at_once=takes_more)
            if self.loading:
                self._loading.over()
                if not leaves:
                    self._dock.ready(self.worker)
            if leaves:
                self._leave(self._starting.took)
                break
        return succeeded

    async def _let_rest(self, refusal: Failure, in_a_row: int) -> None:
        """Take nothing until the backend wants more."""
        wait = self._vitals.becomes_busy(refusal.message, refusal.retry_after, in_a_row)
        self._loading.over()
        self._leave(wait)
        try:
            await asyncio.sleep(wait)
        finally:
            self._vitals.has_rested()
        self._dock.ready(self.worker)

    async def _use_idle_time(self) -> bool:
        """Run the next step of the idle ladder, or ask the backend how it is. False if it must be started anew."""
        if not self.warmth.step_is_due:
            return await self._is_well()
        try:
            await self.warmth.step(self.backend)
            self._executor.has_answered()
        except BackendError as error:
            self._vitals.failed(error.message)
            if error.fatal:
                self._leave(self._starting.took)
                return False
        if self._handed.waiting:  # a batch came meanwhile, and its wait says nothing of how long batches take
            self._held_up = self._clock() - self._handed.waiting[0].sent
        return True

    async def _is_sick(self, batch: Batch) -> bool:
        """Whether the backend is to blame for the batches that failed in a row, and not their inputs."""
        good = self._known_good.batch(self._clock())
        if good is None:
            return True
        outcome, _ = await self._execute(good)
        well = wants_it_later(outcome) or (
            isinstance(outcome, Result) and outcome.size == 1 and not outcome.failures
        )
        if well:
            log.info("the inputs were to blame, the worker is well", extra={"worker": self.worker})
        return not well

    async def _has_room(self) -> bool:
        """Wait until the backend has room: nothing is taken until then. False if it must be started anew.

        A batch that is in hand already is done first; sending it back would cost it an attempt.
        """
        vitals = self._vitals
        if not vitals.full:
            if vitals.has_room or self._handed.waiting:
                return True
            vitals.becomes_full()
        return await vitals.relieved(self.backend) or self._is_lost()

    async def _is_well(self) -> bool:
        """Ask the backend how it is. False if it must be started anew."""
        return await self._vitals.are_good(self.backend) or self._is_lost()

    def _is_lost(self) -> bool:
        self._leave(None)
        return False

    async def _next_batch(self) -> Batch | None:
        """The next batch. None when the slot was idle long enough to ask how the backend is."""
        if not self._handed.waiting:
            try:
                with self._idle.within(QUIET if self.warmth.step_is_due else self._health_interval):
                    await self._handed.wait()
            except TimeoutError:
                pass
        return self._handed.next()

    async def _execute(self, batch: Batch, running: asyncio.Task[Result] | None = None) -> Ended:
        """Run a batch. Returns what came of it, and whether the backend must be started anew. `running`: the run
        itself, if the backend was given the batch ahead."""
        outcome, fatal = await self._executor.execute(self.backend, batch, self.processing_limit, running)
        if isinstance(outcome, Result):
            self._vitals.succeeded(outcome)
            self.version = outcome.version = outcome.version or self._version
        elif not wants_it_later(outcome):
            self._vitals.failed(outcome.message)
        return outcome, fatal

    def _leave(self, back_in: float | None) -> None:
        self._dock.gone(self.worker, back_in)
        self._handed.forget()  # batches that have not begun are no longer its own
