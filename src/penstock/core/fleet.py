"""The workers of one model: who is idle, who is trusted. The `Batcher` reports who is ready or gone, `aftermath`
how batches ended, and `sealing` picks workers here.

A worker is     GONE ──ready──► IDLE ──assign──► BUSY ──release──► IDLE
                  ▲───────────────gone─────────────┘
or, where several batchers share the fleet and a worker's credit says whose it is,
                GONE ──known──► AWAY ──ready──► IDLE ──assign──► BUSY ──release──► AWAY
                  ▲               ◄────lent──────┘                 │
                  └────────────────────gone────────────────────────┘
and its breaker CLOSED ──failures──► OPEN ──cool-down──► on probation ──success──► CLOSED
                                      ▲────────────────────failure──┘  (cool-down doubled)

A worker whose breaker is open takes nothing. On probation it takes one request, which decides.
A time-out opens the breaker at once: at 3 s each, five in a row would be too long to learn from. If the time limit
was short because batches are usually quick, the breaker opens only at the second time-out in a row.

A worker that takes long for its first batch is loading: nobody counts on it until it is ready.

A busy worker may be handed one batch ahead. That batch begins when the one in hand has ended. A shared worker needs
no credit for it, and posts none in between.

A shared worker that is away is healthy, and is idle or works for another batcher: it is not known here which. A
batcher counts on its share of a shared fleet. While fewer workers than that are busy for it, it expects to get one
at once.

A worker abroad is in another zone. It takes a batch only if no worker at home is idle. The policies count on the
workers at home, and the forecasts also on what other zones lend. Without zones all workers are at home.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import ceil, inf

from penstock.core.queued import Sealed
from penstock.types import Seconds, WorkerId

LONGEST_COOLDOWN = 5.0  # seconds
SPEED_MEMORY = 0.2  # weight of the newest batch in a worker's speed
# The part of a worker that a batcher without shards, or a lane that has gone quiet, may count on.
LEAST_SHARE = 0.01


@dataclass(slots=True, eq=False)
class Worker:
    """One worker, as one batcher knows it."""

    id: WorkerId
    abroad: bool = False  # whether it is in another zone
    ready: bool = False
    held: bool = False  # whether it takes its next batch from us: always so unless the fleet is shared
    batch: Sealed | None = None
    ahead: Sealed | None = None  # what it was handed already, and begins when `batch` has ended
    pressure: float = 0.0  # how full it said that it is, after its last batch
    started: Seconds = 0.0
    back_at: Seconds | None = None  # for a worker that is gone, when it may be back, if anybody knows
    one_at_a_time: bool = False  # whether it is never handed a batch ahead
    loading: bool = False  # whether it is gone with its first batch, which loads or compiles
    loads_in: Seconds | None = None  # seconds that its first batch took last time, if anybody knows
    # Until when it is not known whether it is back: it was lost with a batch, in a shared fleet.
    unsure_until: Seconds = 0.0
    failures: int = 0  # failures in a row
    open_until: Seconds = 0.0
    cooldown: Seconds = 0.0  # seconds that the breaker stays open; 0: it is closed
    speed: float = 1.0  # its service time as a multiple of the lane's curve
    batches: int = 0
    busy_seconds: Seconds = 0.0
    met: set[int] = field(default_factory=set)  # sizes of batches that it has run since it started
    new_size_from: Seconds = 0.0  # when it may run a new size again that does not pay at once

    def meets(self, size: int) -> bool:
        """Note that it has run this size. Returns whether that was the first time."""
        known = len(self.met)
        self.met.add(size)
        return len(self.met) > known

    @property
    def on_probation(self) -> bool:
        return self.cooldown > 0.0

    def busy_for(self, now: Seconds) -> Seconds:
        """Seconds that it was busy in all, the batch in hand included."""
        return self.busy_seconds + (now - self.started if self.batch is not None else 0.0)


class Fleet:
    """The workers of one model, as one batcher counts on them."""

    __slots__ = (
        "_busy", "_busy_abroad", "_cooldown", "_failures", "_handed", "_ready", "_ready_abroad", "_resting",
        "counted", "everywhere", "healthy", "idlers", "lends", "loan", "own", "reach", "share", "shared",
        "workers",
    )  # fmt: skip

    def __init__(self, breaker_failures: int, breaker_cooldown: Seconds, *, shared: bool = False) -> None:
        self.shared = shared
        self.share = 1.0  # the part of a shared fleet that this batcher may count on
        self.loan = 0.0  # how many workers abroad all batchers of this zone may count on
        self.lends = 0.0  # how many workers at home other zones use
        self.workers: dict[WorkerId, Worker] = {}
        self._ready = 0  # how many workers are ready
        self._ready_abroad = 0  # how many workers abroad are ready
        # What follows is asked for more often than it changes, so it is kept and not computed.
        self.everywhere = 0  # how many workers are ready, and not resting with an open breaker
        self.healthy = 0  # how many workers at home are ready, and not resting
        self.own = 0.0  # how many workers this batcher may count on, with those that are lent
        self.reach = 1.0  # `own`; if that is 0, as if one worker were about to come
        # How many workers at home this batcher may count on. If none is healthy, how many are lent; if none is lent
        # either, as if one were about to come.
        self.counted = 1.0
        self._failures = breaker_failures
        self._cooldown = breaker_cooldown
        # Idle workers, in the order they became idle. `Batcher.offer` looks here for each request.
        self.idlers: dict[WorkerId, Worker] = {}
        self._busy: dict[WorkerId, Worker] = {}  # busy workers, in the order they started
        self._busy_abroad = 0  # how many busy workers are abroad
        self._resting: dict[WorkerId, Worker] = {}  # workers that are ready, and whose breaker is open
        self._handed = 0  # how many busy workers have their next batch

    def known(self, worker_id: WorkerId) -> Worker:
        """The worker exists and is healthy. Whom it works for does not change."""
        worker = self.workers.setdefault(worker_id, Worker(worker_id))
        if not worker.ready:
            self._ready += 1
            self._ready_abroad += worker.abroad
            worker.ready = True
            worker.loading = False
            worker.back_at = None
            self._place(worker)
            self._recount()
        return worker

    def ready(self, worker_id: WorkerId) -> None:
        """The worker takes its next batch from us. Of a shared worker this may be heard before the end of its
        last batch."""
        worker = self.known(worker_id)
        worker.unsure_until = 0.0
        if not worker.held:
            worker.held = True
            self._place(worker)

    def lent(self, worker_id: WorkerId) -> None:
        """The worker's credit was given back: another batcher may have it."""
        worker = self.workers.get(worker_id)
        if worker is not None:
            worker.held = False
            self.idlers.pop(worker_id, None)

    def gone(self, worker_id: WorkerId, back_at: Seconds | None) -> None:
        """The worker takes nothing until it is known again. `back_at`: when it may be back, if anybody knows."""
        worker = self.workers.setdefault(worker_id, Worker(worker_id))
        self._ready -= worker.ready
        self._ready_abroad -= worker.ready and worker.abroad
        worker.ready = worker.held = worker.loading = False
        worker.pressure = 0.0
        worker.back_at = back_at
        self.idlers.pop(worker_id, None)
        self._resting.pop(worker_id, None)
        self._recount()

    def loads(self, worker_id: WorkerId, now: Seconds, takes: Seconds | None) -> None:
        """The worker's first batch takes long; `takes` seconds in all, if anybody knows."""
        self.gone(worker_id, None)
        worker = self.workers[worker_id]
        worker.loading, worker.loads_in = True, takes
        if worker.batch is None:  # its batch is another batcher's, and when that began is not known here
            worker.started = now

    def loaded_in(self, now: Seconds) -> Seconds | None:
        """When the first of the workers that load should be done: as last time, or else as long again as it has
        taken so far. None if none loads."""
        loading = [worker for worker in self.workers.values() if worker.loading]
        return min(
            (
                now - worker.started if worker.loads_in is None else worker.started + worker.loads_in - now
                for worker in loading
            ),
            default=None,
        )

    @property
    def proven(self) -> bool:
        """Whether a worker is ready that has had a batch of ours before."""
        return any(worker.ready and worker.batches for worker in self.workers.values())

    def remove(self, worker_id: WorkerId) -> None:
        """The worker is never coming back."""
        self.gone(worker_id, None)
        del self.workers[worker_id]

    def wake(self, now: Seconds) -> Seconds:
        """Let workers whose cool-down is over back in, on probation. Returns when the next one is due."""
        if not self._resting:
            return inf
        for worker in [w for w in self._resting.values() if w.open_until <= now]:
            del self._resting[worker.id]
            if worker.held:
                self.idlers[worker.id] = worker
        self._recount()
        return min((w.open_until for w in self._resting.values()), default=inf)

    def pick(self, avoid: WorkerId | None = None) -> Worker | None:
        """The idle worker that has rested longest, trusted ones first, of these those at home, never `avoid`."""
        chosen = None
        for worker in self.idlers.values():
            if worker.id == avoid:
                continue
            if not worker.on_probation and not worker.abroad:
                return worker
            if chosen is None or (chosen.on_probation, chosen.abroad) > (worker.on_probation, worker.abroad):
                chosen = worker
        return chosen

    @property
    def idle(self) -> int:
        return len(self.idlers)

    @property
    def busy(self) -> int:
        """How many workers have batches of ours."""
        return len(self._busy)

    def count_on(self, share: float) -> None:
        """Count on this part of a shared fleet from now on."""
        self.share = share
        self._recount()

    def borrows(self, loan: float, lends: float) -> None:
        """So many workers abroad may be counted on by all batchers of this zone, and so many at home may not."""
        self.loan, self.lends = loan, lends
        self._recount()

    def note_zone(self, worker_id: WorkerId, *, abroad: bool) -> None:
        """Note whether a worker is abroad, before it is known to be ready. It never moves."""
        worker = self.workers.setdefault(worker_id, Worker(worker_id))
        if not worker.ready and worker.batch is None:
            worker.abroad = abroad

    def _recount(self) -> None:
        self.everywhere = self._ready - len(self._resting)
        abroad = self._ready_abroad and self._ready_abroad - sum(
            [worker.abroad for worker in self._resting.values()]
        )
        self.healthy = self.everywhere - abroad
        home, lent = max(0.0, self.healthy - self.lends) * self.share, self.loan * self.share
        self.own = home + lent
        self.reach = max(self.own or self.share, LEAST_SHARE)
        self.counted = max(home or lent or self.share, LEAST_SHARE)

    @property
    def free(self) -> int:
        """How many workers are idle. In a shared fleet, workers that can be expected at once count too."""
        if not self.shared:
            return len(self.idlers)
        at_once = ceil(min(self.counted, self.healthy) - len(self._busy) + self._busy_abroad)
        return max(len(self.idlers), at_once)

    @property
    def free_at_home(self) -> bool:
        """Whether a worker at home is idle, or can be expected at once."""
        busy = len(self._busy) - self._busy_abroad
        if ceil(min(self.counted, self.healthy) - busy) > 0:
            return True
        return any(not worker.abroad for worker in self.idlers.values())

    @property
    def leaves_the_rest(self) -> bool:
        """Whether other zones use workers of this one, and as many are busy for us as we may count on."""
        return self.lends > 0.0 and len(self._busy) - self._busy_abroad >= max(1, int(self.counted))

    @property
    def trusted(self) -> list[Worker]:
        """The workers that `healthy` counts."""
        return [
            worker
            for worker in self.workers.values()
            if worker.ready and not worker.abroad and worker.id not in self._resting
        ]

    def kept(self, *, resting: bool) -> list[WorkerId]:
        """Credits in hand: those of workers that rest, or those of idle ones."""
        return [worker.id for worker in (self._resting if resting else self.idlers).values() if worker.held]

    def assign(self, worker: Worker, batch: Sealed, now: Seconds) -> None:
        """The idle worker has been given a batch."""
        del self.idlers[worker.id]
        worker.batch = batch
        worker.started = now
        worker.held = not self.shared  # a shared worker posts its credit anew, and any batcher may take that
        self._busy[worker.id] = worker
        self._busy_abroad += worker.abroad

    def release(self, worker_id: WorkerId, now: Seconds) -> Worker:
        """The worker's batch in hand is over, or another worker's by now."""
        worker = self.workers[worker_id]
        worker.batch = None
        del self._busy[worker_id]
        self._busy_abroad -= worker.abroad
        worker.batches += 1
        worker.busy_seconds += now - worker.started
        return worker

    def hand_ahead(self, worker: Worker, batch: Sealed) -> None:
        """The busy worker has its next batch."""
        worker.ahead = batch
        self._handed += 1

    def take_back(self, worker: Worker) -> Sealed | None:
        """The worker will not run what it was handed ahead, if anything."""
        batch, worker.ahead = worker.ahead, None
        self._handed -= batch is not None
        return batch

    def begin_ahead(self, worker: Worker, now: Seconds) -> Sealed:
        """What the worker was handed ahead has begun. To be called when the batch before it was released.

        A credit in hand stays good, since it may be from after the end of this batch, which is told later. If it is
        from before, the worker sees to it that no other batcher gets one besides."""
        batch = self.take_back(worker)
        assert batch is not None
        worker.batch = batch
        worker.started = now
        self._busy[worker.id] = worker
        self._busy_abroad += worker.abroad
        return batch

    @property
    def unfed(self) -> int:
        """How many workers have a use for a batch more: they are busy and have nothing to go on with, or can be
        expected to be idle at once."""
        return len(self._busy) - self._busy_abroad - self._handed + self.free

    @property
    def keeps_its_share(self) -> bool:
        """Whether as many workers have their next batch as we may count on: one more would be kept from those who
        share them."""
        return self.shared and self._handed + 1 > self.counted

    @property
    def at_work(self) -> Iterable[Worker]:
        """The workers that have batches of ours, in the order they started."""
        return self._busy.values()

    def succeeded(self, worker: Worker, ratio: float) -> None:
        """The worker's batch succeeded. `ratio`: its time as a multiple of what the curve expected."""
        worker.failures = 0
        worker.cooldown = 0.0
        worker.speed += SPEED_MEMORY * (ratio - worker.speed)
        self._place(worker)

    def failed(self, worker: Worker, now: Seconds, *, at_once: bool) -> None:
        """The worker failed its batch. `at_once`: open its breaker now, however few failures there were."""
        worker.failures += 1
        if at_once or worker.on_probation or worker.failures >= self._failures:
            longest = max(LONGEST_COOLDOWN, self._cooldown)
            worker.cooldown = min(longest, max(self._cooldown, 2.0 * worker.cooldown))
            worker.open_until = now + worker.cooldown
        self._place(worker)

    def refused(self, worker: Worker) -> None:
        """The worker refused a batch that others had refused as well, or wants it later: it lives, and nothing is
        held against it."""
        self._place(worker)

    def _place(self, worker: Worker) -> None:
        """Put the worker among the resting, the idle or those that are away. One whose cool-down is over rests as
        well, until the next `wake`."""
        if worker.ready and worker.batch is None:
            if worker.on_probation:
                self._resting[worker.id] = worker
                self._recount()
            elif worker.held:
                self.idlers[worker.id] = worker

    def next_free(
        self, expected: Callable[[int], Seconds], now: Seconds, *, at_home: bool = False
    ) -> Seconds | None:
        """When a worker can take the next batch: now, or when the busy one that started first should be done.
        `at_home`: leave those abroad out.

        None when nobody knows: all are gone and none has said when it will be back.
        """
        if self.free_at_home if at_home else self.free or self.loan * self.share > self._busy_abroad:
            return now
        behind: Seconds | None = None
        for worker in self._busy.values():  # the first is the one that started first
            if worker.ready and not (at_home and worker.abroad):
                assert worker.batch is not None
                free = max(now, worker.started + expected(worker.batch.size))
                if worker.ahead is None:
                    return free
                behind = behind or free + expected(worker.ahead.size)
        if behind is not None:
            return behind
        if any(not worker.loading and not (at_home and worker.abroad) for worker in self._busy.values()):
            return now  # nothing was heard of the busy ones lately, and they may yet be done
        times = [w.open_until for w in self._resting.values()]
        times += [w.back_at for w in self.workers.values() if w.back_at is not None]
        return max(now, min(times)) if times else None
