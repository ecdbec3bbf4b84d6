"""The parts that the batcher of one model is made of: its lanes (requests that may share a batch), its workers,
what it has learned, what is tried again. The `Batcher` makes them once and hands them to `sealing`, `ahead`,
`spill` and `aftermath`, which all work on the same ones.

Each part has rules of its own. What is worked out from several parts is here.
"""

from math import inf

from penstock.core.apart import Apart
from penstock.core.batch_limits import BatchLimits
from penstock.core.buffer import Depth
from penstock.core.caution import Caution
from penstock.core.delivery import Delivery
from penstock.core.estimator import ServiceCurve
from penstock.core.fleet import Fleet
from penstock.core.lane import Lanes
from penstock.core.meters import RateMeter
from penstock.core.padded import PaddedShare
from penstock.core.queued import BatchIds
from penstock.core.rehearsal import Rehearsals
from penstock.core.rules import BatchingRules
from penstock.core.safe_sizes import SafeSizes
from penstock.types import Seconds

DOUBT = 0.3  # seconds without a batch after which the learned times are doubted


class Parts:
    __slots__ = (
        "apart", "batch_limits", "caution", "curve", "delivery", "depth", "draining", "fleet", "ids", "lanes",
        "last_finish", "padded", "rehearsals", "rules", "safe_sizes", "used_up",
    )  # fmt: skip

    def __init__(self, rules: BatchingRules) -> None:
        self.rules = rules
        self.ids = BatchIds()
        self.curve = ServiceCurve(rules.max_batch, rules.sizes)
        self.depth = Depth(len(rules.tiers.weights))
        self.fleet = Fleet(rules.breaker_failures, rules.breaker_cooldown, shared=rules.shared)
        self.delivery = Delivery(rules.retries)
        self.batch_limits = BatchLimits(rules.processing)
        self.rehearsals = Rehearsals(self.curve)
        self.lanes = Lanes(rules, self.depth, self.curve)
        self.apart = Apart(rules, self.curve)
        self.caution = Caution(self.fleet, self.apart, self.curve)
        self.safe_sizes = SafeSizes(rules.max_batch, rules.sizes)
        self.draining = False  # whether nothing new will come, so that no batch waits for more
        self.last_finish: Seconds = -inf  # when a batch was last over
        # The part of the workers' time that went to refused batches, and to those who are set apart.
        self.used_up = RateMeter(1.0)
        self.padded = PaddedShare()

    def in_doubt(self, now: Seconds) -> bool:
        """Whether no worker is busy for us, and none has been for so long that the learned times may no longer be
        true."""
        return (
            now - self.last_finish > DOUBT
            and not self.fleet.busy
            and self.fleet.healthy + self.fleet.loan > 0
        )

    def fit_curve(self) -> None:
        """Let the curve end at the largest batch that fits into some worker. Where lengths are grouped, each class
        has a largest size of its own, so nothing is changed."""
        if not self.rules.group_lengths:
            widest = self.safe_sizes.widest(self.fleet.workers)
            if widest != self.curve.limit:
                self.curve.reach(widest)

    def workers_apart(self, now: Seconds) -> float:
        """How many workers those who are set apart may have at a time."""
        curve = self.curve
        lanes = self.lanes.values()
        capacity = self.fleet.counted * curve.best_size / (curve.best_seconds or inf)
        load = sum(lane.meter.rate(now) for lane in lanes) / capacity if capacity else 0.0
        return self.fleet.counted * self.apart.share(load, sum(lane.buffer.tenants for lane in lanes))
