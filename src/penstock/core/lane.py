"""A lane: one model and one set of parameters. Only what shares a lane may share a batch (SPEC B5)."""

from penstock.core.buffer import Buffer, Depth, TierRules
from penstock.core.estimator import RateMeter, ServiceCurve
from penstock.types import Request, Seconds

LaneKey = tuple[bytes, int]  # parameters, and the length class where like lengths are grouped

TRUSTED = 4  # batches a lane must have seen before its own curve is believed over the model's
MEMORY = 0.25  # seconds of arrivals the rate is taken over, or three service times if that is longer


class Lane:
    __slots__ = ("_model_curve", "_own_curve", "buffer", "key", "last_dispatch", "meter")

    def __init__(self, key: LaneKey, rules: TierRules, depth: Depth, model_curve: ServiceCurve) -> None:
        self.key = key
        self.buffer = Buffer(rules, depth)
        self.meter = RateMeter(MEMORY)
        self.last_dispatch: Seconds = float("-inf")
        self._model_curve = model_curve
        self._own_curve = ServiceCurve(model_curve.limit)

    @property
    def curve(self) -> ServiceCurve:
        return self._own_curve if self._own_curve.samples >= TRUSTED else self._model_curve

    def learn(self, size: int, seconds: Seconds) -> None:
        self._own_curve.observe(size, seconds)
        window = max(MEMORY, 3.0 * self.curve.single)
        if abs(window - self.meter.window) > 0.05 * self.meter.window:
            self.meter.widen(window)


def lane_key(request: Request, *, per_item: bool, group_lengths: bool) -> LaneKey:
    """Lengths are grouped by powers of two: padding then wastes less than half."""
    return (b"" if per_item else request.parameters, request.length.bit_length() if group_lengths else 0)
