"""A batch that may end its worker does not take the last worker that is well.

Such a batch is risky: a worker died or hung with its requests in hand, or its tenant is set apart for that. It is
tried again, since a worker may also die of something else. If it took the last worker and ended that too, everybody
would have to wait until one is started anew.

- A worker is well if it is ready and has no risky batch in hand. A shared worker that was lost with a batch is well
  again when its credit is taken, or after a while: nobody tells when it is back.
- A risky batch goes while another worker is well, or if there is only one worker at all. Where there are zones,
  only the workers at home count.
- Otherwise it waits for half of the time that it can spare. A batch that may have to be split several more times
  will wait before each split, so the spare time is shared among these waits.
- It waits only while another worker is about to be well: one that has a risky batch in hand, or is expected back
  within a second. Otherwise waiting would cost its innocent members time and help nobody. If nobody knows when a
  worker will be back, it waits a second.
- If its tenant is set apart for having ended workers, it waits as long as its deadline allows. Then it is answered,
  and not sent.

`sealing` asks before it sends a retry or a batch of those set apart, `batcher` before it takes or keeps a worker;
`aftermath` tells of lost workers. Nothing is kept here: what is known is noted at the workers of the `Fleet`.
"""

from math import ceil, inf, log2

from penstock.core.apart import Apart
from penstock.core.culprit import culprit
from penstock.core.delivery import PARTS, Delivery, Retry
from penstock.core.estimator import ServiceCurve
from penstock.core.fleet import Fleet, Worker
from penstock.core.queued import Sealed
from penstock.types import Seconds

HOLD = 1.0  # seconds within which a worker must be expected back to be waited for
UNSURE = 0.5  # seconds after the loss of a shared worker until it is counted on again


def splits(batch: Sealed) -> int:
    """How often a batch may be split until each of its requests is alone."""
    halvings = (batch.size - 1).bit_length()
    return ceil(halvings / log2(PARTS)) if batch.suspect else halvings


class Caution:
    """Says for one model's batcher when a risky batch may go."""

    __slots__ = ("_apart", "_curve", "_fleet")

    def __init__(self, fleet: Fleet, apart: Apart, curve: ServiceCurve) -> None:
        self._fleet = fleet
        self._apart = apart
        self._curve = curve

    def lost(self, worker: Worker, now: Seconds) -> None:
        """Note that a worker died or hung. If we hold its credit, it is back already."""
        if not worker.held:
            worker.unsure_until = now + UNSURE

    def may_risk_one(self, now: Seconds) -> bool:
        """Whether some worker is well besides the one that a risky batch would be given to."""
        fleet = self._fleet
        at_home = sum(not worker.abroad for worker in fleet.workers.values())
        return at_home == 1 or fleet.healthy - len(self._unsure(now)) > 1

    def _unsure(self, now: Seconds) -> list[Worker]:
        """The workers that count as healthy and may not be well."""
        return [
            worker
            for worker in self._fleet.trusted
            if (worker.batch.risky if worker.batch is not None else now < worker.unsure_until)
        ]

    def held_until(self, retry: Retry, now: Seconds) -> Seconds:
        """When a retry that is due is to be looked at again. Returns `now` if it need not wait."""
        batch = retry.batch
        if not batch.risky or self.may_risk_one(now):
            return now
        again = self.sure_at(now)
        culprits = {culprit(request) for request in batch.requests}
        if len(culprits) == 1 and self._apart.is_feared(culprits.pop(), now):
            return again
        # Half of the time that the batch can spare is divided among this wait and those that may follow.
        tries = 1 + splits(batch)
        left = retry.deadline - retry.start - tries * retry.parts * self._curve(batch.size)
        until = retry.start + left / (2 * tries)
        if now >= until or not self._another_by(until, retry.start, now):
            return now
        unknown = retry.start + HOLD
        return min(until, again, unknown if unknown > now else inf)

    def sure_at(self, now: Seconds) -> Seconds:
        """When the next worker that was lost with a batch counts as well again, because enough time has passed."""
        return min((worker.unsure_until for worker in self._unsure(now) if worker.batch is None), default=inf)

    def _another_by(self, then: Seconds, since: Seconds, now: Seconds) -> bool:
        """Whether a worker that is not well may soon be well, and by `then`. Loading workers are not counted on."""
        soon = min(then, now + HOLD)
        return bool(self._unsure(now)) or any(
            now < since + HOLD if worker.back_at is None else worker.back_at <= soon
            for worker in self._fleet.workers.values()
            if not worker.ready and not worker.loading
        )

    def due(self, delivery: Delivery, now: Seconds) -> bool:
        """Whether a retry may go now."""
        return any(self.held_until(retry, now) <= now for retry in delivery.ready(now))

    def apart_due(self, now: Seconds) -> bool:
        """Whether a batch of those who are set apart may go now."""
        apart = self._apart
        if not apart.waiting or now < apart.free_at:
            return False
        return apart.next_lane(now, risk=self.may_risk_one(now)) is not None or self.due(apart.delivery, now)
