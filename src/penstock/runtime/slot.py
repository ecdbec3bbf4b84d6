"""One worker slot: a backend kept alive, and handed one batch at a time.

Each worker of a model is one slot: in `penstock serve` (`roles/model.py`) or in a process of `penstock worker`
(`cluster/worker_slots.py`). A loop of the process runs `run`. Its `Dock` gives it batches by `take` and is told how
each ended. Nobody else calls the backend.

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
- A backend that says it is nearly full takes no batch until it has said that it has room again:
              ──► run it ──above FULL──► probe, and again ──below RELIEVED──► wait for a batch
"""

import asyncio
import gc
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeGuard
from zlib import crc32

from penstock.core.backoff import backoff
from penstock.errors import BackendBusy, BackendError, BackendTimeout
from penstock.ports import Backend, Clock
from penstock.runtime.collapse.once_each import Sameness, run_once_each
from penstock.runtime.dock import Dock
from penstock.runtime.first_batches import FirstBatches
from penstock.runtime.fit import is_too_large
from penstock.runtime.idle_ladder import QUIET
from penstock.runtime.known_good import KnownGood
from penstock.runtime.limit import Limit
from penstock.runtime.padding import Padding
from penstock.runtime.warm_up import Warmer
from penstock.runtime.warmth import Warmth
from penstock.types import Batch, Failure, Result, WarmUp, WorkerId

log = logging.getLogger("penstock.worker")

FIRST_RESTART, LONGEST_RESTART = 0.1, 5.0  # seconds before the first restart, and before any
PROBE_LIMIT = 2.0  # seconds that a backend may take to say how it is
STABLE = 10.0  # seconds: a backend that has run so long, or a batch well, is forgiven its past restarts
SICK = 6  # batches failed in a row: enough for its breaker to open, and for it to fail its probation too
SICK_AGAIN = 48  # `SICK` doubles each time that the backend is found well, up to this
# A backend is full above the first part of what it holds, and has room below the second. There are two bounds so
# that the slot does not flutter.
FULL, RELIEVED = 0.9, 0.8
FULL_PROBE = 0.5  # seconds between two probes of a full backend
FIRST_BUSY, LONGEST_UNSAID = 0.1, 5.0  # seconds that a busy backend is let rest, if it does not say how long
SHORTEST_BUSY, LONGEST_BUSY = 0.01, 60.0  # seconds that a busy backend is let rest, whatever it says
LOADING = 1.0  # seconds a first batch may run before the worker counts as loading
STILL_LOADING = 10.0  # seconds after which the log says again that the worker is loading
# Seconds that a backend may be full. What leaked never comes back by itself, so after this a new one is started.
LONGEST_FULL = 30.0


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
        self.first_batch_limit = first_batch_limit
        self._start_limit = start_limit
        self._warm = warm
        # Whether the backend has answered since it was started: no further batch is its first.
        self._answered = False
        self._first_batches = first_batches or FirstBatches()
        self._known_good = known_good or KnownGood()
        self.warmth = Warmth(
            worker, dock, clock, warmer, idle_sizes, self._known_good, step_limit=first_batch_limit
        )
        self.loading = False  # whether its first batch takes long, or its warm-up
        self._on_started = on_started  # told of each start, and how it failed if it did
        self._version = version  # the model's version, where the backend does not tell
        self.version = version  # the version of the model that ran last
        self._sameness = sameness
        self._padding = padding
        self._health_interval = health_interval
        self._idle, self._working = Limit(health_interval), Limit(processing_limit)
        # A backend that has started and was warmed up, and takes over after the batch in hand.
        self._successor: Backend | None = None
        self._successor_warm_up: WarmUp | None = None
        self._held_up = 0.0  # seconds that the next batch has waited for a step of the idle ladder
        self._handed: deque[Batch] = deque()  # batches that were handed over, and wait for the backend
        self._running = False  # whether a batch is waited for
        # Batches that the backend was given while it ran another, each with what will come of it.
        self._given: deque[tuple[Batch, asyncio.Task[Result]]] = deque()
        self._alarm: asyncio.TimerHandle | None = None  # rings when a first batch, or a warm-up, takes long
        # Set when the slot is handed a batch, or a new backend is to take over.
        self._arrived = asyncio.Event()
        self._start_seconds: float | None = None  # how long starting took last time
        self.last_error = ""
        self.restarts = 0
        self.pressure = 0.0  # how full the backend last said it is
        self.full = False  # whether it takes nothing, since its backend said that it is full, or busy
        dock.attach(worker, self.take)
        dock.gone(worker, None)

    @property
    def runs_ahead(self) -> bool:
        """Whether the backend can get a batch ready while it runs another."""
        return bool(getattr(self.backend, "runs_ahead", False))

    @property
    def first_seconds(self) -> float | None:
        """How long a first batch takes, as far as is known."""
        return self._first_batches.longest

    @property
    def first_may_hang(self) -> bool:
        """Whether nothing is known yet by which a first batch that hangs could be told from one that loads."""
        return not self._answered and self._first_batches.longest is None

    def take(self, batch: Batch) -> None:
        """Take a batch from the dock, to run it now or after the one in hand."""
        self._handed.append(batch)
        self._arrived.set()
        self._give_ahead()

    def _give_ahead(self) -> None:
        """Give the backend the next batch, if it runs one and can get another ready."""
        if (
            self._handed
            and self._running + len(self._given) == 1
            and self._answered
            and self._successor is None
            and self.runs_ahead
        ):
            batch = self._handed.popleft()
            if not self._handed:
                self._arrived.clear()
            self._given.append((batch, asyncio.ensure_future(self._run(batch))))

    async def prepare(self, backend: Backend) -> WarmUp | None:
        """Start a backend that is to take over, and warm it up. Raises BackendError; it is then closed."""
        try:
            await self._open(backend)
            return await self.warmth.make(backend)
        except BaseException:
            await backend.close()
            raise

    async def _open(self, backend: Backend) -> None:
        try:
            async with asyncio.timeout(self._start_limit):
                await backend.start()
        except TimeoutError:
            raise BackendTimeout(
                f"it did not start within {self._start_limit:g} s; raise start_timeout if it needs more"
            ) from None

    def renew(self, backend: Backend, warm_up: WarmUp | None = None) -> Backend | None:
        """Let another backend, which was prepared, take over: after the batch in hand, and before the next. Returns
        a backend that was still waiting to take over, if any, for the caller to close."""
        waited, self._successor = self._successor, backend
        self._successor_warm_up = warm_up
        self._arrived.set()  # an idle slot need not wait for a batch
        return waited

    async def _take_over(self) -> None:
        if self._successor is not None:
            old, self.backend, self._successor = self.backend, self._successor, None
            self.pressure = 0.0
            self._began(self._successor_warm_up)
            await old.close()

    def _began(self, warm_up: WarmUp | None) -> None:
        self._answered = self._warm or warm_up is not None
        self.warmth.began(warm_up)

    async def run(self) -> None:
        """Start the backend and serve, until cancelled."""
        failures = 0
        # An earlier run that failed may have left a batch in hand, which goes to another slot.
        self._forget()
        self.loading = False
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
            self._forget()
            self._idle.close()
            self._working.close()
            await self._take_over()
            await self.backend.close()

    async def _start(self) -> bool:
        began = self._clock()
        self._dock.gone(self.worker, self._start_seconds)
        try:
            if self._successor is None:
                await self._open(self.backend)
                await self._start_warm()
            await self._take_over()
        except BackendError as error:
            return self._not_started(error)
        self._start_seconds = self._clock() - began
        log.info("worker ready", extra={"worker": self.worker, "seconds": round(self._start_seconds, 3)})
        if not self.full:
            self.pressure = 0.0
            self._dock.ready(self.worker)
        self._on_started(self.worker, None)
        return True

    def _not_started(self, error: BackendError) -> bool:
        self.full = False
        self.last_error = error.message
        self._on_started(self.worker, error)
        return False

    async def _start_warm(self) -> None:
        """Warm up the backend that has just started. If that takes long, the worker counts as loading."""
        began = self._clock()
        self._alarm = asyncio.get_running_loop().call_later(LOADING, self._warms_long)
        try:
            warm_up = await self.warmth.make(self.backend)
        finally:
            self._silence()
            self.loading = False
        if warm_up is not None:
            self._first_batches.took(self._clock() - began)
        self._began(warm_up)

    def _warms_long(self) -> None:
        self.loading = True
        if self._start_seconds is None:  # else the batcher knows when it should be back
            self._dock.loading(self.worker, self.first_seconds)

    async def _pause(self, failures: int) -> None:
        wait = backoff(failures, FIRST_RESTART, LONGEST_RESTART, crc32(self.worker.encode()))
        known = self._start_seconds
        self._dock.gone(self.worker, None if known is None else wait + known)
        await asyncio.sleep(wait)

    async def _serve(self) -> bool:
        """Run batch after batch, until the backend must be started anew. Returns whether any of them succeeded.

        A backend that lives and fails everything (its GPU in an error state, its memory leaked away) is as
        good as dead: only a new one can help.
        """
        succeeded, failed_in_a_row, busy_in_a_row, too_many = False, 0, 0, SICK
        while self._given or await self._has_room():
            running: asyncio.Task[Result] | None = None
            if self._given:
                batch, running = self._given.popleft()
            else:
                await self._take_over()
                next_batch = await self._next_batch()
                if next_batch is None:
                    if not await self._use_idle_time():
                        break
                    continue
                batch = next_batch
            held_up, self._held_up = self._held_up, 0.0
            self._running = True
            self._give_ahead()  # a task, which begins after the call below
            outcome, fatal = await self._execute(batch, running)
            self._running = False
            if isinstance(outcome, Result) and outcome.size == batch.size:
                succeeded, failed_in_a_row, busy_in_a_row, too_many = True, 0, 0, SICK
                outcome.held_up += held_up
                self._known_good.note(batch, outcome)
                self.warmth.answered(batch, outcome)
            elif _wants_it_later(outcome):
                self._dock.finished(self.worker, batch.id, outcome)
                busy_in_a_row += 1
                await self._let_rest(outcome, busy_in_a_row)
                continue
            elif is_too_large(outcome, batch.size):
                self.warmth.fit.is_below(batch.size)  # smaller batches will tell whether it is sick
            else:
                failed_in_a_row += 1
            leaves = fatal
            if failed_in_a_row >= too_many and not fatal and not self._given:
                leaves = await self._is_sick(batch)
                failed_in_a_row, too_many = 0, min(SICK_AGAIN, 2 * too_many)
            takes_more = not leaves and not self.loading and self.pressure <= FULL
            self._dock.finished(self.worker, batch.id, outcome, at_once=takes_more)
            if self.loading:
                self.loading = False
                if not leaves:
                    self._dock.ready(self.worker)
            if leaves:
                self._leave(self._start_seconds)
                break
        return succeeded

    async def _let_rest(self, refusal: Failure, in_a_row: int) -> None:
        """Take nothing until the backend wants more: as long as it says, or longer each time if it says nothing."""
        said = refusal.retry_after
        wait = (
            backoff(in_a_row, FIRST_BUSY, LONGEST_UNSAID, crc32(self.worker.encode()))
            if said is None
            else said
        )
        wait = min(max(wait, SHORTEST_BUSY), LONGEST_BUSY)
        if in_a_row == 1:
            log.info("endpoint busy", extra={"worker": self.worker, "seconds": round(wait, 3)})
        self.loading, self.full, self.last_error = False, True, refusal.message
        self._leave(wait)
        try:
            await asyncio.sleep(wait)
        finally:
            self.full = False
        self._dock.ready(self.worker)

    async def _use_idle_time(self) -> bool:
        """Run the next step of the idle ladder, or ask the backend how it is. False if it must be started anew."""
        if not self.warmth.step_is_due:
            return await self._healthy()
        try:
            await self.warmth.step(self.backend)
            self._answered = True
        except BackendError as error:
            self.last_error = error.message
            if error.fatal:
                self._leave(self._start_seconds)
                return False
        if self._handed:  # a batch came meanwhile, and its wait says nothing of how long batches take
            self._held_up = self._clock() - self._handed[0].sent
        return True

    async def _is_sick(self, batch: Batch) -> bool:
        """Whether the backend is to blame for the batches that failed in a row, and not their inputs."""
        good = self._known_good.batch(self._clock())
        if good is None:
            return True
        outcome, _ = await self._execute(good)
        well = _wants_it_later(outcome) or (
            isinstance(outcome, Result) and outcome.size == 1 and not outcome.failures
        )
        if well:
            log.info("the inputs were to blame, the worker is well", extra={"worker": self.worker})
        return not well

    async def _has_room(self) -> bool:
        """Wait until the backend has room: nothing is taken until then. False if it must be started anew.

        A batch that is in hand already is done first; sending it back would cost it an attempt.
        """
        if not self.full:
            if self.pressure <= FULL or self._handed:
                return True
            self.full = True
            log.warning("worker full", extra={"worker": self.worker, "pressure": round(self.pressure, 3)})
            self._dock.gone(self.worker, None)
        since = self._clock()
        while self._clock() - since < LONGEST_FULL:
            await asyncio.sleep(FULL_PROBE)
            if not await self._healthy():
                return False
            if self.pressure < RELIEVED:
                self.full = False
                log.info(
                    "worker has room", extra={"worker": self.worker, "pressure": round(self.pressure, 3)}
                )
                self._dock.ready(self.worker)
                return True
        return self._unhealthy(f"it was {self.pressure:.0%} full for {LONGEST_FULL:g} s")

    async def _next_batch(self) -> Batch | None:
        """The next batch. None when the slot was idle long enough to ask how the backend is."""
        if not self._handed:
            try:
                with self._idle.within(QUIET if self.warmth.step_is_due else self._health_interval):
                    await self._arrived.wait()
            except TimeoutError:
                pass
        self._arrived.clear()
        return self._handed.popleft() if self._handed else None

    async def _execute(
        self, batch: Batch, running: asyncio.Task[Result] | None = None
    ) -> tuple[Result | Failure, bool]:
        """Run a batch. Returns what came of it, and whether the backend must be started anew.

        `running`: the run itself, if the backend was given the batch ahead. An error is not kept beyond its
        `except`: its traceback would keep the batch and the dead backend alive until the cycle collector runs,
        which is rare.
        """
        limit = batch.limit or self.processing_limit
        if not self._answered:
            return await self._execute_first(batch, self._first_batches.limit(limit, self.first_batch_limit))
        try:
            with self._working.within(limit):
                result = await (running or self._run(batch))
        except TimeoutError:
            message = _hung(limit, self.processing_limit, "timeouts.processing")
            return self._failure(batch, BackendTimeout(message))
        except BackendError as error:
            return self._failure(batch, error)
        return self._succeeded(result)

    async def _execute_first(self, batch: Batch, limit: float) -> tuple[Result | Failure, bool]:
        """Run the first batch since the backend was started. It has a longer limit."""
        began = self._clock()
        self._alarm = asyncio.get_running_loop().call_later(LOADING, self._takes_long, began, limit)
        try:
            with self._working.within(limit):
                result = await self._run(batch)
        except TimeoutError:
            message = _hung(limit, self.first_batch_limit, "timeouts.first_batch")
            return self._failure(batch, BackendTimeout(message))
        except BackendError as error:
            self._answered = not error.fatal and not isinstance(error, BackendBusy)
            return self._failure(batch, error)
        finally:
            self._silence()
        self._answered = True
        seconds = self._clock() - began
        self._first_batches.took(seconds)
        if self.loading:
            log.info("worker loaded", extra={"worker": self.worker, "seconds": round(seconds, 3)})
        return self._succeeded(result)

    def _takes_long(self, began: float, limit: float) -> None:
        """Say that a first batch takes long: once to the batcher, and again and again in the log."""
        log.info(
            "loading: the worker is still in its first batch, which timeouts.first_batch bounds",
            extra={"worker": self.worker, "seconds": round(self._clock() - began), "limit": round(limit, 1)},
        )
        self._alarm = asyncio.get_running_loop().call_later(STILL_LOADING, self._takes_long, began, limit)
        if not self.loading:
            self.loading = True
            self._dock.loading(self.worker, self.first_seconds)

    def _silence(self) -> None:
        """Stop the alarm."""
        alarm, self._alarm = self._alarm, None
        if alarm is not None:
            alarm.cancel()

    async def _run(self, batch: Batch) -> Result:
        if self._sameness is None:
            return await self._run_padded(batch)
        return await run_once_each(self._run_padded, batch, self._sameness)

    async def _run_padded(self, batch: Batch) -> Result:
        if self._padding is None:
            return await self.backend.run(batch)
        return await self._padding.run(self.backend, batch)

    def _succeeded(self, result: Result) -> tuple[Result | Failure, bool]:
        self.pressure = result.pressure
        self.version = result.version = result.version or self._version
        return result, False

    def _failure(self, batch: Batch, error: BackendError) -> tuple[Failure, bool]:
        if isinstance(error, BackendBusy):
            return Failure.of(error), False
        self.last_error = error.message
        log.warning(
            "batch failed",
            extra={"worker": self.worker, "batch": batch.id, "size": batch.size, "error": error.message},
        )
        return Failure.of(error, details=error.details), error.fatal

    async def _healthy(self) -> bool:
        try:
            async with asyncio.timeout(PROBE_LIMIT):
                self.pressure = await self.backend.probe()
        except BackendError as error:
            return self._unhealthy(error.message)
        except TimeoutError:
            return self._unhealthy(f"the health probe did not answer within {PROBE_LIMIT:g} s")
        return True

    def _unhealthy(self, why: str) -> bool:
        self.last_error = why
        log.warning("worker unhealthy", extra={"worker": self.worker, "error": why})
        self._leave(None)
        return False

    def _leave(self, back_in: float | None) -> None:
        self._dock.gone(self.worker, back_in)
        self._forget()

    def _forget(self) -> None:
        """Let go of batches that were handed over and have not begun: they are no longer its own."""
        self._handed.clear()
        self._arrived.clear()
        self._running = False
        while self._given:
            _, running = self._given.pop()
            running.add_done_callback(_nobody_asks)
            running.cancel()


def _nobody_asks(running: asyncio.Task[Result]) -> None:
    """Take note of how a batch ended that was given back to the batcher; else asyncio would say that nobody did."""
    if not running.cancelled():
        running.exception()


def _wants_it_later(outcome: Result | Failure) -> TypeGuard[Failure]:
    """Whether the backend refused a batch only because it is busy."""
    return isinstance(outcome, Failure) and outcome.code == BackendBusy.code


def _hung(limit: float, longest: float, setting: str) -> str:
    """The failure of a batch that ran too long. It says which setting cut it short."""
    if limit >= longest:
        return f"the backend did not answer within {limit:g} s, which is all that {setting} allows"
    return (
        f"the backend did not answer within {limit:.3g} s, several times what its batches usually take"
        f" (at most {setting}, {longest:g} s)"
    )
