"""Several zones in virtual time: each has a batcher and workers, and a batch that leaves its zone pays for the way.
`zoned_study.py` plays schedules on it, for `penstock sim --zones`.

The same decisions as in a server: batchers (`core`), when work may leave (`core.spill`), and what zones lend each
other (`core.lending`). Gateways, lines and the registry are ideal, but for the way between zones and for the time
until a death is noticed. A zone that is lost takes its gateway, batcher and workers along at once. Its clients ask
elsewhere from then on. What its batcher had in hand goes to the others, and so do batches that its workers had.
"""

from array import array
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random

from penstock.core.admission import Admission
from penstock.core.batcher import Batcher
from penstock.core.lending import ZoneLoad, loan_of
from penstock.core.queued import Queued, Sealed
from penstock.sim.kernel import Scenario
from penstock.types import Outcome, Reply, Result, Seconds, WorkerId

# As over Redis at the defaults: the seconds of a lease, the part of it after which nobody counts on a silent
# process, and the seconds between two heartbeats.
LEASE, SILENT, HEARTBEAT = 1.0, 0.75, 0.25
KEPT = 0.5  # seconds after which a slot that nothing waits for is given back


class Spill(StrEnum):
    """How the zones help each other."""

    DEADLINE = "deadline"  # a batch leaves if its zone cannot do it in time
    POOL = "pool"  # all workers are everybody's, wherever they are
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Zones:
    """The zones of a scenario. The workers are divided evenly among them."""

    shares: Mapping[str, float]  # by zone: its part of the arrivals
    round_trip: Seconds = 0.002  # from one zone to another, and back
    spill: Spill = Spill.DEADLINE
    lost: str = ""  # the zone that is lost; empty: none is
    lost_at: Seconds = inf


@dataclass(slots=True)
class ZonedRun:
    """What happened to the requests that arrived after the warm-up."""

    # For each request that was served in time: when it came, and how long it took.
    arrivals: "array[float]" = field(default_factory=lambda: array("d"))
    latencies: "array[float]" = field(default_factory=lambda: array("d"))
    errors: Counter[str] = field(default_factory=Counter)  # by code
    accepted: int = 0  # requests that were let in
    crossed: int = 0  # requests that were served in time by a worker of another zone than they were asked in
    inherited: int = 0  # requests that the lost zone had in hand
    batches: int = 0
    batched: int = 0  # requests in all batches
    busy_seconds: float = 0.0  # of all workers together
    ended: Seconds = 0.0  # when the last request was served


class _Home:
    """One zone: its batcher, and what it waits for."""

    def __init__(self, name: str, scenario: Scenario, workers: Sequence[WorkerId]) -> None:
        self.name, self.workers = name, workers
        self.batcher = Batcher(replace(scenario.rules, shared=True, ahead=False))
        rules = scenario.admission
        self.admission = None if rules is None else Admission(self.batcher, rules, scenario.capacity)
        self.in_hand: dict[str, Queued] = {}  # requests that the batcher has not answered, by key
        self.asks: Sequence[str] = ()  # the zones that lend workers
        self.wake: Seconds | None = None  # when the batcher is to be asked again
        self.alive = True


class ZonedKernel:
    """Plays one schedule."""

    def __init__(self, scenario: Scenario, zones: Zones) -> None:
        self.scenario, self.zones = scenario, zones
        self.run_so_far = ZonedRun()
        self._rng = Random(scenario.seed)
        # What is to happen, as a heap: when, a number that breaks ties, and what is called then.
        self._events: list[tuple[Seconds, int, Callable[[Seconds], None]]] = []
        self._numbers = count()
        each = scenario.workers // len(zones.shares)
        self._homes = {
            zone: _Home(zone, scenario, [WorkerId(f"{zone}/{number}") for number in range(each)])
            for zone in zones.shares
        }
        self._zone_of = {worker: zone for zone, home in self._homes.items() for worker in home.workers}
        self._lines: dict[str, deque[WorkerId]] = {
            zone: deque(home.workers) for zone, home in self._homes.items()
        }
        if zones.spill is Spill.POOL:
            self._lines = {"": deque(self._zone_of)}
        # The batchers that want a slot, each with whether it is to be one from abroad. The longest waits first.
        self._hungry: deque[tuple[_Home, bool]] = deque()
        self._next_home = 0  # counts up, so that requests without a zone of their own go round the zones
        self._warmup = 0.0
        for home in self._homes.values():
            self._meet_workers(home)

    def _meet_workers(self, home: _Home) -> None:
        """Tell a batcher which workers it may use."""
        pool = self.zones.spill is Spill.POOL
        for worker, zone in self._zone_of.items():
            abroad = zone != home.name
            if abroad and self.zones.spill is Spill.NEVER:
                continue
            home.batcher.worker_takes(worker, one_at_a_time=True, abroad=abroad and not pool)
            home.batcher.worker_known(worker)
        if pool:
            home.batcher.share = 1 / len(self._homes)

    # ---- the run -------------------------------------------------------------------------------------------

    def run(self, schedule: Sequence[float], warmup: Seconds = 0.0) -> ZonedRun:
        """Play the whole schedule and drain."""
        self._warmup = warmup
        zones, shares = list(self.zones.shares), list(self.zones.shares.values())
        draw = Random(f"{self.scenario.seed}/zones")
        if self.zones.spill is Spill.DEADLINE:
            beat = 0.0
            while beat < schedule[-1] + self.scenario.request_limit:
                beat += HEARTBEAT
                self._at(beat, self._heartbeat)
        if self.zones.lost:
            self._at(self.zones.lost_at, self._lose)
        for number, arrival in enumerate(schedule):
            while self._events and self._events[0][0] <= arrival:
                self._next_event()
            self._arrive(number, draw.choices(zones, shares)[0], arrival)
        while self._events:
            self._next_event()
        return self.run_so_far

    def _next_event(self) -> None:
        now, _, happen = heappop(self._events)
        happen(now)

    def _at(self, when: Seconds, happen: Callable[[Seconds], None]) -> None:
        heappush(self._events, (when, next(self._numbers), happen))

    def _hop(self, one: str, other: str) -> Seconds:
        """How long the way from one zone to another takes."""
        return 0.0 if one == other else self.zones.round_trip / 2

    def _next_alive(self) -> _Home:
        alive = [home for home in self._homes.values() if home.alive]
        self._next_home += 1
        return alive[self._next_home % len(alive)]

    # ---- requests ------------------------------------------------------------------------------------------

    def _arrive(self, number: int, zone: str, now: Seconds) -> None:
        gateway = self._homes[zone] if self._homes[zone].alive else self._next_alive()
        home = gateway if self.zones.spill is not Spill.POOL else self._next_alive()
        scenario = self.scenario
        request = Queued(
            str(number), scenario.rules.model, b'""', now, now + scenario.queue_limit, now + scenario.request_limit,
            gateway=gateway.name,
        )  # fmt: skip
        way = self._hop(gateway.name, home.name)
        if way:
            self._at(now + way, lambda then: self._enter(home if home.alive else gateway, request, then))
        else:
            self._enter(home, request, now)

    def _enter(self, home: _Home, request: Queued, now: Seconds) -> None:
        run = self.run_so_far
        refused = None if home.admission is None else home.admission.refusal(request, now)
        if request.arrival >= self._warmup:
            if refused is not None:
                run.errors[refused.code] += 1
            else:
                run.accepted += 1
        if refused is None:
            self._offer(home, request, now)

    def _offer(self, home: _Home, request: Queued, now: Seconds) -> None:
        home.in_hand[request.key] = request
        if home.batcher.offer(request, now):
            self._step(home, now)

    def _step(self, home: _Home, now: Seconds) -> None:
        if not home.alive:
            return
        effects = home.batcher.step(now)
        for worker, batch in effects.dispatches:
            self._send(home, worker, batch, now)
        for reply in effects.replies:
            self._reply(home, reply, now)
        wake = effects.wake
        if wake is not None and (home.wake is None or wake < home.wake):
            home.wake = wake
            self._at(wake, lambda then: self._alarm(home, then))
        self._feed(home, now)

    def _alarm(self, home: _Home, now: Seconds) -> None:
        if home.wake is not None and home.wake <= now:
            home.wake = None
            self._step(home, now)

    def _reply(self, home: _Home, reply: Reply, now: Seconds) -> None:
        request, run = reply.request, self.run_so_far
        home.in_hand.pop(request.key, None)
        if request.arrival < self._warmup:
            return
        if reply.outcome is not Outcome.SUCCESS:
            assert reply.failure is not None
            run.errors[reply.failure.code] += 1
            return
        assert reply.execution is not None
        assert isinstance(request, Queued)
        where = self._zone_of[reply.execution.worker]
        answered = now - self._hop(where, home.name) + self._hop(where, request.gateway)
        if answered > request.deadline:
            run.errors["DEADLINE_EXCEEDED"] += 1
            return
        run.arrivals.append(request.arrival)
        run.latencies.append(answered - request.arrival)
        run.crossed += where != request.gateway
        run.ended = max(run.ended, now)

    # ---- workers -------------------------------------------------------------------------------------------

    def _line_of(self, worker: WorkerId) -> deque[WorkerId]:
        return self._lines["" if self.zones.spill is Spill.POOL else self._zone_of[worker]]

    def _feed(self, home: _Home, now: Seconds) -> None:
        """Let a batcher stand at the lines where it wants a slot."""
        if home.batcher.wants_worker(now) and (home, False) not in self._hungry:
            self._hungry.append((home, False))
        if home.asks and (home, True) not in self._hungry and home.batcher.wants_abroad(now):
            self._hungry.append((home, True))
        self._share_out(now)

    def _share_out(self, now: Seconds) -> None:
        """Give slots that are free to whoever has waited longest."""
        for home, abroad in list(self._hungry):
            if (home, abroad) not in self._hungry:  # this batcher has been given a slot meanwhile
                continue
            wants = home.batcher.wants_abroad if abroad else home.batcher.wants_worker
            if not home.alive or not wants(now):
                self._hungry.remove((home, abroad))
                continue
            names = home.asks if abroad else [home.name if home.name in self._lines else ""]
            line = next((self._lines[name] for name in names if self._lines[name]), None)
            if line is not None:
                self._hungry.remove((home, abroad))
                self._take(home, line.popleft(), now, abroad=abroad)

    def _take(self, home: _Home, worker: WorkerId, now: Seconds, *, abroad: bool) -> None:
        way = 2 * self._hop(home.name, self._zone_of[worker])
        if way:
            self._at(now + way, lambda then: self._hold(home, worker, then, abroad=abroad))
        else:
            self._hold(home, worker, now, abroad=abroad)

    def _hold(self, home: _Home, worker: WorkerId, now: Seconds, *, abroad: bool) -> None:
        batcher = home.batcher
        wanted = batcher.wants_abroad(now) if abroad else batcher.has_work(now)
        if not home.alive or not wanted:
            self._free(worker, now)
        elif worker in batcher.fleet.workers:
            batcher.worker_ready(worker)
            self._at(now + KEPT, lambda then: self._give_back(home, then))
            self._step(home, now)

    def _give_back(self, home: _Home, now: Seconds) -> None:
        if home.alive:
            for worker in home.batcher.spare(now):
                home.batcher.worker_lent(worker)
                self._free(worker, now)

    def _free(self, worker: WorkerId, now: Seconds) -> None:
        if self._homes[self._zone_of[worker]].alive:
            self._line_of(worker).append(worker)
            self._share_out(now)

    def _send(self, home: _Home, worker: WorkerId, batch: Sealed, now: Seconds) -> None:
        run, service = self.run_so_far, self.scenario.service
        rows = int(self.scenario.rules.sizes.padded(batch.size))
        seconds = service.seconds(rows, self._rng.gauss(0.0, 1.0) if service.jitter else 0.0)
        if now >= self._warmup:
            run.batches += 1
            run.batched += batch.size
            run.busy_seconds += seconds
        way, result = self._hop(home.name, self._zone_of[worker]), Result(delivered=batch.size)

        def heard(then: Seconds) -> None:
            home.batcher.finished(worker, batch.id, result, then)
            self._step(home, then)

        def done(then: Seconds) -> None:
            if self._homes[self._zone_of[worker]].alive:
                self._at(then + way, heard)
                self._free(worker, then)

        self._at(now + way + seconds, done)

    # ---- between zones -------------------------------------------------------------------------------------

    def _heartbeat(self, now: Seconds) -> None:
        """Everybody hears how the others stand."""
        alive = [home for home in self._homes.values() if home.alive]
        loads = {
            home.name: ZoneLoad(len(home.workers), _needed(home.batcher, now), home.batcher.wants_abroad(now))
            for home in alive
        }
        for home in alive:
            loan = loan_of(home.name, loads)
            home.asks = loan.zones
            home.batcher.other_zones_lend(loan.workers, ours=loan.lends)
            self._feed(home, now)

    def _lose(self, now: Seconds) -> None:
        """A zone is gone. The others notice later."""
        lost = self._homes[self.zones.lost]
        lost.alive = False
        gone = set(lost.workers)
        for line in self._lines.values():
            kept = [worker for worker in line if worker not in gone]
            line.clear()
            line.extend(kept)
        self._at(now + SILENT * LEASE, lambda then: self._miss(lost, then))
        self._at(now + LEASE, lambda then: self._inherit(lost, then))

    def _miss(self, lost: _Home, now: Seconds) -> None:
        """The others notice that a zone is silent, and count on its workers no longer."""
        for home in self._living():
            for worker in lost.workers:
                if worker in home.batcher.fleet.workers:
                    home.batcher.worker_doubted(worker)
            self._step(home, now)

    def _inherit(self, lost: _Home, now: Seconds) -> None:
        """What a lost zone had in hand is done by the others, whatever its queue limit."""
        living = self._living()
        for home in living:
            for worker in lost.workers:
                if worker in home.batcher.fleet.workers:
                    home.batcher.worker_removed(worker, now)
            if self.zones.spill is Spill.POOL:
                home.batcher.share = 1 / len(living)
            self._step(home, now)
        for number, request in enumerate(lost.in_hand.values()):
            heir = living[number % len(living)]
            expires = request.expires if request.expires >= request.deadline else inf
            again = Queued(
                request.key, request.model, request.input, request.arrival, expires, request.deadline,
                gateway=heir.name,
            )  # fmt: skip
            self.run_so_far.inherited += request.arrival >= self._warmup
            self._offer(heir, again, now)
        lost.in_hand.clear()

    def _living(self) -> list[_Home]:
        return [home for home in self._homes.values() if home.alive]


def _needed(batcher: Batcher, now: Seconds) -> float:
    """How many workers a batcher's requests keep busy."""
    curve = batcher.curve
    return batcher.rate(now) * curve.best_seconds / curve.best_size
