"""A lane: the requests for one model with one set of parameters. Only what shares a lane may share a batch. The
`Batcher` puts requests into lanes, and `apart` those of culprits into lanes of their own. `sealing` takes batches
from both."""

from math import inf

from penstock.core.buffer import Buffer, Depth
from penstock.core.culprit import Culprit
from penstock.core.estimator import ServiceCurve
from penstock.core.meters import ArrivalMeter
from penstock.core.rules import BatchingRules
from penstock.types import Request, Seconds

# What makes a lane: the parameters, the length class where like lengths are grouped, and the culprit where one is
# set apart.
LaneKey = tuple[bytes, int] | tuple[bytes, int, Culprit]

TRUSTED = 4  # batches a lane must have seen before its own curve is believed over the model's
# A lane's own curve is no longer believed once the model has seen so many batches since the lane's last one.
FORGOTTEN = 100
ROOM = 0.1  # the part of the lanes for tenants with less than their share of them
MEMORY = 0.25  # seconds over which the rate of arrivals is taken, or three service times if these are longer


class Lane:
    """One lane: what waits in it, and what was learned of its batches."""

    __slots__ = (
        "_learned",
        "_like_lengths",
        "_model_curve",
        "ahead_from",
        "buffer",
        "give_up",
        "horizon",
        "key",
        "last_dispatch",
        "meter",
        "own_curve",
    )

    def __init__(self, key: LaneKey, rules: BatchingRules, depth: Depth, model_curve: ServiceCurve) -> None:
        self.key = key
        self.buffer = Buffer(rules.tiers, depth, padded=rules.padded_cost)
        self.meter = ArrivalMeter(MEMORY)
        self.last_dispatch: Seconds = -inf  # when its last batch was sent
        # When the most urgent request that waits must be on a worker at the latest.
        self.give_up: Seconds = inf
        # How long a batch of the lane was expected to take, with a guard, when `give_up` was worked out.
        self.horizon: Seconds = 0.0
        self.ahead_from = 0  # when so many wait, a busy worker may be handed its next batch; 0: never
        self._model_curve = model_curve
        self.own_curve = ServiceCurve(model_curve.limit, model_curve.sizes)
        # Whether all inputs of the lane are of like length. How long other lanes' batches take tells nothing of its
        # own then.
        self._like_lengths = rules.group_lengths
        self._learned = 0  # batches the model had seen when this lane last learned something

    @property
    def curve(self) -> ServiceCurve:
        """How long its batches take: as its own batches say, if there were enough of late, otherwise as the
        model's."""
        own, model = self.own_curve, self._model_curve
        fresh = self._like_lengths or model.samples - self._learned <= FORGOTTEN
        return own if fresh and own.samples >= TRUSTED else model

    def learn(self, size: int, seconds: Seconds, *, first: bool, alone: bool) -> None:
        """Learn from a batch, after the model's curve has. `alone`: the model has only this lane, so its own curve
        would be the same as the model's. A lane of like lengths learns all the same, because others may come."""
        if self._like_lengths or not alone:
            self.own_curve.observe(size, seconds, first=first)
            self._learned = self._model_curve.samples
        window = max(MEMORY, 3.0 * self.curve.single)
        if abs(window - self.meter.window) > 0.05 * self.meter.window:
            self.meter.widen(window)


def lane_key(request: Request, *, per_item: bool, group_lengths: bool) -> tuple[bytes, int]:
    """The key of a request's lane. Lengths are grouped by powers of two: the padding of inputs inside a function
    then wastes less than half."""
    return (b"" if per_item else request.parameters, request.length.bit_length() if group_lengths else 0)


class Lanes(dict[LaneKey, Lane]):
    """All lanes of a model. They are bounded: an empty one makes room for a new one."""

    def __init__(self, rules: BatchingRules, depth: Depth, curve: ServiceCurve) -> None:
        super().__init__()
        self._rules = rules
        self._depth = depth
        self._curve = curve
        # Whether a request's parameters alone say which lane is its own.
        self.plain = not (rules.per_item_parameters or rules.group_lengths)

    def follow(self, rules: BatchingRules) -> None:
        """Go by these rules from now on, in the lanes that there are too."""
        self._rules = rules
        for lane in self.values():
            lane.buffer.follow(rules.tiers)

    def own_curve_of(self, request: Request) -> ServiceCurve:
        """What is known of batches with this request. Where lengths are grouped, others' batches tell nothing of
        it."""
        if not self._rules.group_lengths:
            return self._curve
        lane = self.get(self.key_of(request))
        return ServiceCurve(self._curve.limit, self._curve.sizes) if lane is None else lane.own_curve

    @property
    def limit(self) -> int:
        """How many lanes there may be."""
        return self._rules.max_lanes

    @property
    def crowded(self) -> bool:
        """Whether so few lanes are left that not everybody may open one."""
        return len(self) >= self.limit - int(ROOM * self.limit)

    def key_of(self, request: Request) -> LaneKey:
        """The key of a request's lane."""
        if self.plain:  # the usual case, and asked for every request
            return request.parameters, 0
        rules = self._rules
        return lane_key(request, per_item=rules.per_item_parameters, group_lengths=rules.group_lengths)

    def has_room_for(self, request: Request) -> bool:
        """Whether a request's lane exists, or one could be opened for it."""
        return (
            len(self) < self._rules.max_lanes
            or self.key_of(request) in self
            or any(lane.buffer.waiting == 0 for lane in self.values())
        )

    def open(self, key: LaneKey) -> Lane:
        """Open a new lane. If there may be no more, an empty one is forgotten for it."""
        if len(self) >= self._rules.max_lanes:
            self._forget_an_empty_one()
        lane = self[key] = Lane(key, self._rules, self._depth, self._curve)
        return lane

    def _forget_an_empty_one(self) -> None:
        """Forget the empty lane that has sent nothing for longest; `has_room_for` has seen that there is one."""
        empty = [lane for lane in self.values() if lane.buffer.waiting == 0]
        if empty:
            del self[min(empty, key=lambda lane: lane.last_dispatch).key]
