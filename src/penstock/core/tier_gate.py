"""How much of the capacity the lower tiers may have. `Admission` asks this about a request that could be in time
and fits into the queue (`refusal`).

Where several tiers are in use (requests of more than one have come within a minute):
- The lowest tier is let in at up to `lowest_share` of the capacity while others wait. It may use the rest while
  nobody else waits. Requests of better tiers that fit into the next batch do not count as waiting, since nothing
  that is let in behind them delays them. Otherwise one paid request now and then would idle GPUs.
- With `warning` requests waiting the lowest tier is refused, with `critical` all but the best. Both numbers are for
  a capacity of `reference` requests a second and grow and shrink with the capacity. So they mean a time: a queue
  that takes 0.31 s, or 1.56 s, to drain. But two, or four, full batches for each worker may always wait: while all
  workers are busy the queue is the batch, and in 0.31 s a slow model may not run a single one.
- Requests with little time are late long before that. So, unless tiers are strict, all but the best tier are
  refused as well while a request of the best tier that came now would spend more than a quarter of its time in the
  queue. Weights alone would give the best tier its part of the service and no more, and refuse some of its requests
  although all of them fit.
- Each tier keeps its own part whatever these rules say. Unless tiers are strict, a tier is refused only what goes
  beyond its weight's part of the capacity. While the best tier has little time, the lowest tier keeps its part too.
  A tier between them then keeps the amount by which the best tier asks for more than the lowest leaves it, and no
  more than the lowest keeps.
- A tier's part is a little larger for tenants that have had less of it than the tier's other tenants.
- A lower tier is also refused what would be late if better tiers go on arriving as they do. The forecast knows only
  who waits now: it would let such a request in, and the request would expire.
- A tier may fill its `queue_share` of the longest queue and no more.
Where only one tier is in use nothing is refused here, so that a single tenant can use all of its GPUs. The best
tier is never refused here.
"""

from math import expm1, inf, log

from penstock.core.batcher import Batcher
from penstock.core.capacity import CapacityRules, depth_limits, own_capacity
from penstock.core.estimator import GUARD, LEAST_SPREAD
from penstock.core.forecast import SURE, can_wait, forecast, in_turn
from penstock.core.meters import RateMeter
from penstock.core.recent import Recent
from penstock.core.refusal import is_full, too_long
from penstock.errors import Overloaded
from penstock.types import Request, Seconds

IN_USE = 60.0  # seconds since two tiers were last seen, after which they count as one again
WINDOW = 1.0  # seconds over which a tier's part is measured: what the lowest may have follows within 2 s
LASTING = 5.0  # seconds over which the demand of the best tier is averaged, so that chance matters little
# The part of its time that the best tier may spend in the queue; beyond it, the best tier comes first altogether.
PRESSED = 0.25
NEWEST = 0.05  # weight of the newest request in the mean of these times, which clients may choose
# Added to a tier's part of the capacity, for tenants that have had less of that part than the others.
BEYOND = 0.1
RARELY = 0.01  # requests in a window: a part of the capacity that is less than this counts as none
LEAST_LEFT = 0.05  # the part of the service that a tier is assumed to have, however much better tiers take
SOONEST = 0.001  # seconds: the shortest `Retry-After`


def tier_refusal(batcher: Batcher, rules: CapacityRules, request: Request, used: float) -> Overloaded | None:
    """Why this request's tier is not let in now, or None. `used`: the part of the capacity it has had lately."""
    tier = request.tier
    rate = own_capacity(batcher)
    if tier == 0 or not rate:  # nobody is healthy, or nobody knows yet: the forecast decides
        return None
    depth, lowest = batcher.depth, tier == len(batcher.depth.by_tier) - 1
    if rules.queue_shares:
        over = depth.by_tier[tier] - rules.queue_shares[tier] * rules.max_queue
        if is_full(batcher, request, rules.queue_shares[tier] * rules.max_queue, depth.by_tier[tier]):
            message = "this tier has filled its share of the queue (queue_share of the tier)"
            return Overloaded(message, retry_after=_drain(max(0.0, over), rate * _service(batcher, tier)))
    if is_owed(used, kept_part(batcher, rules, tier), rate):
        return None
    waiting = batcher.waiting - depth.by_tier[tier] + in_turn(batcher, request)
    warning, critical = depth_limits(batcher, rules)
    limit = warning if lowest else critical
    if waiting >= limit:
        return Overloaded(
            "the queue is too long to let this tier in (tiers.warning, tiers.critical)",
            retry_after=_drain(waiting - limit, rate),
        )
    better = depth.total - depth.by_tier[tier]
    size = batcher.curve.best_size
    share = rules.lowest_share
    if lowest and better >= size and used >= share:
        lent = _drain(better - size, rate)  # lent until the requests that wait are one batch
        slowed = WINDOW * log(used / share) if share else inf
        return Overloaded(
            "this tier has used its share of the capacity (tiers.lowest_share)",
            retry_after=max(SOONEST, min(lent, slowed)),
        )
    return None


def kept_part(batcher: Batcher, rules: CapacityRules, tier: int) -> float:
    """The part of the capacity that is a tier's own, by its weight, however long the queue is."""
    tiers = batcher.rules.tiers
    if tiers.strict:
        return 0.0
    part = tiers.weights[tier] / sum(tiers.weights)
    return min(part, rules.lowest_share) if tier == len(tiers.weights) - 1 else part


def is_owed(used: float, part: float, rate: float) -> bool:
    """Whether a tier that has had `used` lately may have one more request, so that it comes to `part` of the
    capacity. A tier that is let in once every 1 / (part × rate) seconds has its part. The formula says what its
    meter then shows just before each request: if these are rare, that is far less than the part."""
    each = part * rate * WINDOW
    return each > RARELY and used * rate * WINDOW * expm1(1.0 / each) < 1.0


def best_pressed(batcher: Batcher, patience: Seconds, now: Seconds) -> Seconds:
    """How many seconds the best tier needs the whole capacity: until a request of it that arrives spends no more
    than `PRESSED` of its time in the queue. Zero or less if it does not need it now."""
    if not batcher.depth.by_tier[0] or batcher.rules.tiers.strict:  # no other tier keeps the best waiting
        return 0.0
    expected = forecast(batcher, 0, now)
    return 0.0 if expected is None else expected.start - now - PRESSED * patience


def own_wait(batcher: Batcher, tier: int, better: float, in_tier: float) -> Seconds:
    """How long a request that comes now will wait behind `in_tier` requests of its own tier, if better tiers go on
    taking the part `better` of the capacity: those that wait now are not the only ones that go before it."""
    by_tier, rate, size = batcher.depth.by_tier, own_capacity(batcher), batcher.curve.best_size
    if in_tier < size or not rate:
        return 0.0
    left = max(LEAST_LEFT, 1.0 - better)
    if not batcher.rules.tiers.strict:
        weights = batcher.rules.tiers.weights
        rest = sum(weight for weight, waiting in zip(weights[tier:], by_tier[tier:], strict=True) if waiting)
        # The part of the capacity that is surely the tier's own.
        entitled = weights[tier] / (sum(weights[:tier]) + rest)
        left = max(left * weights[tier] / rest, entitled)
    return in_tier // size * size / (rate * left)


def _drain(excess: float, rate: float) -> Seconds:
    """Seconds until `excess` requests, and one more, have gone."""
    return (excess + 1.0) / rate


def _service(batcher: Batcher, tier: int) -> float:
    """The part of the service that a tier gets, as long as the tiers that wait now go on waiting."""
    tiers, by_tier = batcher.rules.tiers, batcher.depth.by_tier
    if tiers.strict:
        own = by_tier[tier] or 1
        return own / (own + sum(by_tier[:tier]))  # behind all better ones
    active = sum(weight for rank, weight in enumerate(tiers.weights) if by_tier[rank] or rank == tier)
    return tiers.weights[tier] / active


class TierGate:
    """Has the last word on requests that the forecast would let in. `Admission` spares it most of them."""

    __slots__ = (
        "_asked", "_batcher", "_kept", "_latest", "_lowest", "_meters", "_mixed_until", "_patience", "_recent",
        "_stretch", "_warning", "rules",
    )  # fmt: skip

    def __init__(self, batcher: Batcher, rules: CapacityRules) -> None:
        self._batcher = batcher
        self._lowest = len(batcher.depth.by_tier) - 1
        # For each tier, the workers' time that its requests take: the meter shows the part of the capacity that the
        # tier has had. Counting requests would show too much whenever the workers, for a moment, do less.
        self._meters = [RateMeter(WINDOW) for _ in batcher.depth.by_tier]
        self._recent = [Recent() for _ in batcher.depth.by_tier]
        # The part of the capacity that the best tier asks for, let in or not.
        self._asked = RateMeter(LASTING)
        self._latest = -1  # the tier seen last
        self._mixed_until = -inf  # until when several tiers count as in use
        self._patience = inf  # seconds that requests of the best tier can wait for a worker, as a rule
        self.follow(rules)

    def follow(self, rules: CapacityRules) -> None:
        """Go by these rules from now on, and by the tiers of the batcher as they are now."""
        self.rules = rules
        tiers = self._batcher.rules.tiers
        # For each tier, by which factor its requests wait longer than the whole queue takes to drain, because it
        # gets only its part of the service.
        self._stretch = [
            1.0 / LEAST_LEFT if tiers.strict else sum(tiers.weights) / weight for weight in tiers.weights
        ]
        self._warning = rules.warning / rules.reference  # seconds that a queue of `warning` takes to drain
        self._kept = kept_part(self._batcher, rules, self._lowest)

    def refusal(self, request: Request, now: Seconds) -> Overloaded | None:
        """Why this request is not let in, or None if it is: it then counts for its tier."""
        tier = request.tier
        self._saw(tier, now)
        if not self.is_mixed(now):
            return None
        if tier == 0:
            self.note_patience(request, now)
        elif self.rules.queue_shares or self._batcher.waiting >= self._batcher.curve.best_size:
            refused = self._refusal(request, now)
            if refused is not None:
                return refused
        # If `_refusal` was not asked, all that waits goes with the next batch, and one more keeps nobody waiting.
        if tier:
            self._recent[tier].add(request.tenant)
        self._count(tier, 1, now)
        return None

    def let_in(self, tier: int, number: int, now: Seconds) -> None:
        """Note that `number` requests were let in lately without asking here, because there was room for them."""
        self._saw(tier, now)
        if self.is_mixed(now):
            self._count(tier, number, now)

    def _count(self, tier: int, number: int, now: Seconds) -> None:
        """Count requests of a tier that were let in."""
        rate = own_capacity(self._batcher)
        if rate:
            self._meters[tier].add(now, number / rate)
            if tier == 0:
                self._asked.add(now, number / rate)

    def is_mixed(self, now: Seconds) -> bool:
        """Whether several tiers are in use."""
        return now < self._mixed_until

    def _saw(self, tier: int, now: Seconds) -> None:
        """Note that a request of this tier has come. If the one before was of another, several tiers are in use."""
        if tier != self._latest:
            if self._latest >= 0:
                self._mixed_until = now + IN_USE
            self._latest = tier

    def room(self, tier: int, now: Seconds) -> tuple[float, float]:
        """Returns two numbers. While fewer than the first wait, and fewer than the second arrive, no rule here can
        refuse a request of this tier that has enough time (`needs`)."""
        if tier == 0 or not self.is_mixed(now):
            return inf, inf
        if self.rules.queue_shares:
            return 0.0, 0.0
        batcher, curve = self._batcher, self._batcher.curve
        rate = own_capacity(batcher)
        drain = min(self._warning, PRESSED * self._patience - self._batch)
        waiting, more = drain * rate, inf
        if tier == self._lowest:
            more = self._meters[tier].room(self.rules.lowest_share) * rate
        return (waiting, more) if waiting > curve.best_size and more > 0.0 else (curve.best_size, inf)

    def needs(self, tier: int, waiting: float, now: Seconds) -> Seconds:
        """The time that is enough for a request of this tier if `waiting` requests wait, whichever their tiers."""
        if tier == 0 or not self.is_mixed(now):
            return 0.0
        rate = own_capacity(self._batcher)
        return (self._batch + waiting / rate * self._stretch[tier]) / SURE if rate else inf

    @property
    def _batch(self) -> Seconds:
        """An upper bound of the seconds until a full batch that was just sent is over, and the one after it too."""
        curve = self._batcher.curve
        return curve.full * (2.0 + GUARD * (curve.spread + LEAST_SPREAD))

    def _refusal(self, request: Request, now: Seconds) -> Overloaded | None:
        batcher, tier = self._batcher, request.tier
        used = self._meters[tier].rate(now)
        if self._recent[tier].had_less(request.tenant):
            used /= 1.0 + BEYOND
        pressed = best_pressed(batcher, self._patience, now)
        if pressed > 0.0 and not is_owed(used, self._kept_from_best(tier, now), own_capacity(batcher)):
            return Overloaded("a better tier needs the whole capacity", retry_after=max(SOONEST, pressed))
        better = sum(meter.rate(now) for meter in self._meters[:tier])
        wait = own_wait(batcher, tier, better, in_turn(batcher, request))
        has = self._has(request, now)
        late = wait - can_wait(batcher, has)
        if late > 0.0:
            return too_long("the queue of this tier is too long for its deadline", late, wait, has)
        return tier_refusal(batcher, self.rules, request, used)

    def _kept_from_best(self, tier: int, now: Seconds) -> float:
        """The part of the capacity that a tier keeps even while the best tier needs all of it. The lowest keeps its
        own part. A tier between keeps the amount by which the best asks for more than the lowest leaves it, up to
        what the lowest keeps."""
        kept = self._kept
        return kept if tier == self._lowest else min(kept, self._asked.rate(now) + kept - 1.0)

    def kept_from(self, tier: int, now: Seconds) -> float:
        """The part of the capacity that this tier cannot have, because lower tiers keep and use it."""
        if tier > 0 or not self.is_mixed(now):
            return 0.0
        lower = range(1, self._lowest + 1)
        return sum(
            max(0.0, min(self._meters[rank].rate(now), self._kept_from_best(rank, now))) for rank in lower
        )

    def turned_away(self, now: Seconds) -> None:
        """Note that a request of the best tier was refused because too much waits. It counts as asked for."""
        rate = own_capacity(self._batcher)
        if rate:
            self._asked.add(now, 1.0 / rate)

    def _has(self, request: Request, now: Seconds) -> Seconds:
        """How long a request can wait for a worker."""
        curve = self._batcher.curve
        spread = curve.spread if curve.spread > LEAST_SPREAD else LEAST_SPREAD
        latest = request.deadline - curve.full * (1.0 + GUARD * spread)
        return (latest if latest < request.expires else request.expires) - now

    def note_patience(self, request: Request, now: Seconds) -> None:
        """Note how long a request of the best tier can wait."""
        seconds, known = self._has(request, now), self._patience
        self._patience = seconds if known == inf else known + NEWEST * (seconds - known)
