"""Culprits, whose requests spoil batches, are set apart: their requests run in batches of their own for a while.

`Admission`, the `Batcher` and `sealing` ask whether the sender of a request is set apart, and `refusal` how long
its request would wait. `sealing` takes batches from here, `aftermath` tells how batches ended, and `caution` asks
whose batches have ended workers.

- A batch counts against a culprit if it fails with nobody else's requests in it, and these had failed before (on
  another worker where there is one). However often it is halved after that, it counts once.
- Two such batches within a short while set a culprit apart. They are forgotten exponentially.
- Nobody is set apart while nobody else asks. Only a few culprits are remembered at a time: if everybody's batches
  fail, no tenant is to blame.
- The size of a culprit's batches is halved when one fails and doubled when one succeeds. A culprit that sends
  nothing but poison soon has its requests run one by one.
- The failures of culprits are retried from a budget of their own.
- All culprits together get a part of the workers' time: what would remain if the others asked for twice as much;
  or, if that is more, a fair part by the number of tenants that wait, at most half. Each batch of a culprit pushes
  the next one back by its time divided by that part. When the part changes, so does what is left of the wait.
"""

from collections.abc import Sequence
from math import exp, inf

from penstock.core.buffer import Depth
from penstock.core.culprit import Culprit, culprit
from penstock.core.delivery import Delivery
from penstock.core.estimator import ServiceCurve
from penstock.core.lane import Lane, LaneKey, Lanes
from penstock.core.queued import Queued, Sealed
from penstock.core.rules import BatchingRules
from penstock.types import Request, Seconds

MEMORY = 20.0  # seconds after which a spoilt batch counts for a third
SET_APART = 1.5  # spoilt batches: two within about ten seconds set a culprit apart
FEARED = 1.0  # spoilt batches: less than `SET_APART`, so that a culprit that waits is not let go in between
MOST_COUNTED = 6.0  # spoilt batches: so a culprit that has mended its ways is let out within half a minute
FORGOTTEN = 0.2  # spoilt batches: a culprit with fewer than this is forgotten
MOST_KNOWN = 16  # culprits that are remembered
OTHERS_ASK = 10.0  # seconds for which somebody else counts as asking
OVERDUE = 0.1  # seconds: a batch of culprits that could have gone so long ago goes before the others' batches
MOST_FAIR, LEAST_FAIR = 0.5, 0.02  # the fair part of the workers' time, at most and at least
LEAST_SECONDS = 0.001  # seconds: a batch is charged no less than this
RESTART = 1.0  # seconds that are charged besides if a worker was lost
QUEUE = 0.05  # the part of the longest queue that those who are set apart may fill


class _Record:
    """What is known of one culprit."""

    __slots__ = ("_score", "_when", "feared", "size")

    def __init__(self, size: int) -> None:
        self._score = 0.0  # its spoilt batches at the time `_when`: the older they are, the less they count
        self._when: Seconds = 0.0
        self.size = size  # the most requests in its next batch
        self.feared = False  # a worker died or hung of what it sent

    def score(self, now: Seconds) -> float:
        """How many spoilt batches count against it now."""
        return self._score * exp(min(0.0, self._when - now) / MEMORY)

    def add(self, now: Seconds) -> None:
        self._score = min(MOST_COUNTED, self.score(now) + 1.0)
        self._when = now


class ApartLanes(Lanes):
    """The lanes of those who are set apart, one for each culprit."""

    def key_of(self, request: Request) -> LaneKey:
        return (*super().key_of(request), culprit(request))


class Apart:
    """Who is set apart, what waits of them, and when their next batch may go."""

    __slots__ = (
        "_attempts", "_latest", "_max_batch", "_others_until", "_sweep_at", "_workers", "delivery", "depth",
        "free_at", "known", "lanes",
    )  # fmt: skip

    def __init__(self, rules: BatchingRules, curve: ServiceCurve) -> None:
        # What is known of each culprit; empty in the usual case, and then nothing here is asked.
        self.known: dict[Culprit, _Record] = {}
        self.depth = Depth(len(rules.tiers.weights))
        self.lanes = ApartLanes(rules, self.depth, curve)
        self.delivery = Delivery(rules.retries)
        self.free_at: Seconds = 0.0  # when the next batch of those who are set apart may go
        self._workers = 0.0  # how many workers they were to have at a time when `free_at` was worked out
        self._max_batch = rules.max_batch
        self._attempts = rules.retries.attempts
        self._latest: Culprit | None = None  # the culprit that asked last
        self._others_until: Seconds = -inf  # until when somebody other than the latest counts as asking
        self._sweep_at: Seconds = 0.0  # when culprits with hardly any spoilt batches are next forgotten

    @property
    def waiting(self) -> int:
        """How many requests of culprits wait, retries included."""
        return self.depth.total + self.delivery.waiting

    # ---- who is set apart ----------------------------------------------------------------------------------

    def holds(self, request: Request, now: Seconds) -> bool:
        """Whether this request is to go apart. While `known` is empty the answer is no, and callers need not
        ask."""
        who = culprit(request)
        if who != self._latest:
            if self._latest is not None:
                self._others_until = now + OTHERS_ASK
            self._latest = who
        if now >= self._sweep_at:
            self._sweep(now)
        record = self.known.get(who)
        return record is not None and now < self._others_until and record.score(now) >= SET_APART

    def is_feared(self, who: Culprit, now: Seconds) -> bool:
        """Whether a culprit was set apart lately, and workers died or hung of what it sent."""
        record = self.known.get(who)
        return record is not None and record.feared and record.score(now) > FEARED

    def tenants(self, now: Seconds) -> list[str]:
        """The tenants that are set apart, by name."""
        names = [(who, record) for who, record in self.known.items() if isinstance(who, str)]
        return sorted(who for who, record in names if record.score(now) >= SET_APART)

    def divide(self, requests: Sequence[Queued], now: Seconds) -> tuple[list[Queued], list[list[Queued]]]:
        """Returns the requests of a batch that may stay together, and those of each culprit that is set apart."""
        innocent: list[Queued] = []
        guilty: dict[Culprit, list[Queued]] = {}
        for request in requests:
            if self.holds(request, now):
                guilty.setdefault(culprit(request), []).append(request)
            else:
                innocent.append(request)
        return innocent, list(guilty.values())

    def spoilt(self, batch: Sealed, now: Seconds) -> None:
        """Note that a batch failed in which one member may be to blame."""
        if not batch.retry or batch.charged:
            return
        first = culprit(batch.requests[0])
        if all(culprit(request) == first for request in batch.requests):
            batch.charged = True
            self._convict(first, now, feared=batch.risky)

    def _convict(self, who: Culprit, now: Seconds, *, feared: bool = False) -> None:
        self._sweep(now)
        record = self.known.get(who)
        if record is None:
            if len(self.known) >= MOST_KNOWN:
                least = min(self.known, key=lambda known: self.known[known].score(now))
                if self.known[least].score(now) >= 1.0:
                    return
                del self.known[least]
            record = self.known[who] = _Record(self._max_batch)
        record.add(now)
        record.feared |= feared

    def _sweep(self, now: Seconds) -> None:
        self._sweep_at = now + MEMORY
        self.known = {who: record for who, record in self.known.items() if record.score(now) >= FORGOTTEN}

    # ---- their batches -------------------------------------------------------------------------------------

    def add(self, request: Queued, now: Seconds) -> None:
        """Take in a request of a culprit."""
        request.apart = True
        key = self.lanes.key_of(request)
        lane = self.lanes.get(key) or self.lanes.open(key)
        lane.meter.add(now)
        lane.buffer.push(request)

    def next_lane(self, now: Seconds, *, risk: bool) -> Lane | None:
        """The lane that has sent nothing for longest, of those in which something waits. Lanes of feared culprits
        count only with `risk`."""
        waiting = [
            lane
            for lane in self.lanes.values()
            if lane.buffer.waiting and (risk or not self.is_feared(lane.key[-1], now))
        ]
        return min(waiting, key=lambda lane: lane.last_dispatch, default=None)

    def size_of(self, lane: Lane) -> int:
        """How many requests the next batch of a culprit's lane may have."""
        record = self.known.get(lane.key[-1])
        return self._max_batch if record is None else record.size

    def ended(self, batch: Sealed, *, well: bool) -> None:
        """Note that a batch of those who are set apart is over."""
        record = self.known.get(culprit(batch.requests[0]))
        if record is not None and not batch.retry:
            record.size = min(self._max_batch, 2 * record.size) if well else max(1, record.size // 2)

    def wait(self, request: Request, seconds: Seconds, workers: float, now: Seconds) -> Seconds:
        """How long a request that comes now must wait until it can go. `seconds`: how long a batch takes.
        `workers`: how many run such batches. The request stands behind all retries, and behind what its own culprit
        has waiting. Other culprits take turns with it."""
        own = self.lanes.get(self.lanes.key_of(request))
        before = 0 if own is None else own.buffer.waiting // self.size_of(own)
        # Nearly all batches of this culprit fail as often as they may.
        if own is not None and self.size_of(own) == 1:
            before *= self._attempts
        turns = sum(lane.buffer.waiting > 0 for lane in self.lanes.values()) or 1
        batches = self.delivery.batches + before * turns
        return max(0.0, self.free_at - now) + batches * seconds / workers

    # ---- their part of the workers' time -------------------------------------------------------------------

    def share(self, load: float, tenants: int) -> float:
        """The part of the workers' time for those who are set apart. `load`: what all others ask for, as a part
        of the capacity. `tenants`: how many tenants of the others wait."""
        apart = len({lane.key[-1] for lane in self.lanes.values() if lane.buffer.waiting}) or 1
        fair = min(MOST_FAIR, apart / (apart + max(1, tenants)))
        return max(fair, 1.0 - 2.0 * load, LEAST_FAIR)

    def charge(self, seconds: Seconds, workers: float, now: Seconds) -> None:
        """Note how long a batch of those who are set apart takes, which pushes their next one back. `workers`: how
        many they may have at a time, by their share."""
        self.renew(workers, now)
        self.free_at = max(now, self.free_at) + max(seconds, LEAST_SECONDS) / workers

    def renew(self, workers: float, now: Seconds) -> None:
        """Work out anew when their next batch may go, since they may now have so many workers at a time. What was
        charged while the others needed nearly everything, or while hardly any worker was left, must not keep
        culprits from workers that have been idle since."""
        if self._workers and now < self.free_at:
            self.free_at = now + (self.free_at - now) * self._workers / workers
        self._workers = workers
