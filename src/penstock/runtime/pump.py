"""The loop of one model's batcher (`core.batcher`): events in as they happen, one decision per turn of the event
loop.

In one process a model's broker calls `offer` and `withdraw`, and its slots call what their `Dock` promises;
`embedded_server` and `served_model` look after the loop. Over a bus the batcher's process calls all of it:
`batcher`, `batched_models`, `borrowing`, `spilling`, `watchdog` and `workers_seen` of `cluster`.

However many requests arrive in one turn, `step` runs once. A batch that ends is not an event like the others: its
worker stands idle until the next decision, so that is made at once, before anybody is answered. There is one timer,
set to when the batcher asked to be woken.

If a decision fails, the log says so, and it is made again after a while, like a loop that ended (`penstock.loops`).
"""

import asyncio
from collections.abc import Callable, Sequence
from math import ceil

from penstock.core.batcher import Batcher
from penstock.core.queued import Queued, Sealed
from penstock.errors import BackendUnavailable
from penstock.loops import Failures, say
from penstock.ports import Clock, Observer
from penstock.types import Failure, Reply, Result, WarmUp, WorkerId

Deliver = Callable[[Sequence[Reply]], None]
Take = Callable[[Sealed], None]  # how a worker is handed a batch, one to run now or the one after it

STUCK = 5.0  # seconds a wake-up may be overdue before the loop counts as stuck
NOT_SENT = Failure(BackendUnavailable.code, "the batch could not be handed to its worker")


class Pump:
    def __init__(
        self,
        batcher: Batcher,
        deliver: Deliver,
        observer: Observer,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        timer_grain: float = 0.001,
        on_wants: Callable[[], None] | None = None,
    ) -> None:
        self.batcher = batcher
        # Called after each step that leaves something waiting for a worker: a credit is to be taken.
        self.on_wants = on_wants
        # Called after each step that leaves something waiting which the workers of our zone cannot do in time.
        self.on_wants_abroad: Callable[[], None] | None = None
        self._deliver = deliver
        self._observer = observer
        self._loop = loop
        self._clock = clock
        # uvloop's timers have whole milliseconds: rounding up spares a second wake-up.
        self._grain = timer_grain
        self._workers: dict[WorkerId, Take] = {}
        self._scheduled = False  # whether a decision is due in the next turn of the loop
        self._timer: asyncio.TimerHandle | None = None
        self._wake: float | None = None  # when the timer rings
        self._failures = Failures()

    # ---- events ------------------------------------------------------------------------------------------
    # Each is passed on to the batcher, which says what it means: `gone` to `Batcher.worker_gone`, and so on.

    def offer(self, request: Queued) -> None:
        if self.batcher.offer(request, request.arrival) and not self._scheduled:
            self._kick()

    def withdraw(self, request: Queued) -> None:
        if self.batcher.withdraw(request):
            self._kick()

    def attach(self, worker: WorkerId, take: Take) -> None:
        self._workers[worker] = take

    def ready(self, worker: WorkerId) -> None:
        self.batcher.worker_ready(worker)
        self._kick()

    def warmed(self, worker: WorkerId, warm_up: WarmUp) -> None:
        self.batcher.worker_warmed(worker, warm_up, self._clock())

    def known(self, worker: WorkerId) -> None:
        self.batcher.worker_known(worker)
        self._kick()

    def lent(self, worker: WorkerId) -> None:
        self.batcher.worker_lent(worker)
        self._kick()

    def gone(self, worker: WorkerId, back_in: float | None) -> None:
        now = self._clock()
        self.batcher.worker_gone(worker, now, None if back_in is None else now + back_in)
        self._kick()

    def loading(self, worker: WorkerId, takes: float | None) -> None:
        self.batcher.worker_loading(worker, self._clock(), takes)
        self._kick()

    def doubted(self, worker: WorkerId) -> None:
        self.batcher.worker_doubted(worker)
        self._kick()

    def removed(self, worker: WorkerId) -> None:
        self.batcher.worker_removed(worker, self._clock())
        self._workers.pop(worker, None)
        self._kick()

    def finished(
        self, worker: WorkerId, batch_id: int, outcome: Result | Failure, *, at_once: bool = False
    ) -> None:
        """Take in that a batch has ended. `at_once`: decide now, so that the worker has its next batch when this
        returns. Those who waited for the old batch are answered after that."""
        self.batcher.finished(worker, batch_id, outcome, self._clock())
        if at_once:
            self._decide(answer_later=True)
        else:
            self._kick()

    def drain(self) -> None:
        self.batcher.drain()
        self._kick()

    def look_again(self) -> None:
        """Decide anew, since the rules have changed."""
        self._kick()

    # ---- the loop ----------------------------------------------------------------------------------------

    def _kick(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        self._decide()

    def _decide(self, *, answer_later: bool = False) -> None:
        try:
            self._step(answer_later)
        except Exception as error:
            now = self._clock()
            self._set_timer(now + self._failed(error), now)

    def _failed(self, error: Exception) -> float:
        """Say in the log that a decision failed. Returns how many seconds to wait until the next try."""
        wait = self._failures.note(error, self._clock())
        say(f"the batcher of {self.batcher.rules.model}", self._failures.error, wait, error)
        return wait

    def _step(self, answer_later: bool) -> None:
        now = self._clock()
        effects = self.batcher.step(now)
        observer = self._observer
        for ended in effects.ended:
            observer.ended(*ended)
        for worker, batch in effects.dispatches:
            if batch.ahead or self._hand_over(worker, batch, now):
                observer.sent(batch, worker)
        for worker, batch in effects.ahead:
            self._hand_over(worker, batch, now)
        if effects.given_up:
            observer.given_up(effects.given_up, now)
        if effects.replies:
            if answer_later:
                self._loop.call_soon(self._deliver, effects.replies)
            else:
                self._deliver(effects.replies)
        self._set_timer(effects.wake, now)
        if self.on_wants is not None and self.batcher.wants_worker(now):
            self.on_wants()
            if self.on_wants_abroad is not None and self.batcher.wants_abroad(now):
                self.on_wants_abroad()

    def _hand_over(self, worker: WorkerId, batch: Sealed, now: float) -> bool:
        """Hand a batch to its worker. Returns False if that failed; the batcher then retries the batch."""
        try:
            self._observer.handed(batch, now)
            self._workers[worker](batch)
        except Exception as error:
            self._failed(error)
            self.batcher.finished(worker, batch.id, NOT_SENT, now)
            self._kick()
            return False
        return True

    def _set_timer(self, wake: float | None, now: float) -> None:
        """Set the timer. If it is already set to an earlier time, keep it: an early wake-up only asks again."""
        timer = self._timer
        if timer is not None:
            if wake is not None and self._wake is not None and self._wake <= wake:
                return
            timer.cancel()
            self._timer = None
        self._wake = wake
        if wake is not None:
            delay = max(0.0, wake - now)
            if self._grain:
                delay = ceil(delay / self._grain) * self._grain
            self._timer = self._loop.call_later(delay, self._alarm)

    def _alarm(self) -> None:
        self._timer = None
        self._wake = None
        if not self._scheduled:
            self._turn()

    def dead(self) -> list[str]:
        """Why this loop is dead or stuck, in a few words; empty when all is well."""
        name, now = f"the batcher of {self.batcher.rules.model}", self._clock()
        if self._failures.too_many(now):
            return [f"{name} failed again and again ({self._failures.error})"]
        if self._wake is not None and now > self._wake + STUCK:  # the loop missed a wake-up
            return [f"{name} is stuck"]
        return []

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
