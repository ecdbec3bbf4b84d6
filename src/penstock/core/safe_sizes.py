"""The largest batch that fits into a worker's memory, found out by batches that did not fit.

`aftermath` reports each batch that fitted or did not; `sealing` asks how large the next one of a worker may be.

    a batch of n does not fit          → half of n from now on; where n was a trial, what had fitted before
    `wait` seconds later               → a batch may be a quarter larger, or of the next allowed size: a trial
    a trial fits                       → its size is the limit, and the next trial may come after `STEP` seconds
    a trial does not fit               → `wait` doubles
    one input alone does not fit       → that input was to blame: the limits are as they were before its batches
    the limit is the largest batch     → the limit is forgotten

There is one limit for each worker and each class of lengths (`Shape`), if lengths are grouped: long inputs say
nothing of short ones. So there are few limits.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from penstock.core.sizes import ANY, Sizes
from penstock.types import Seconds, WorkerId

FIRST_WAIT, LONGEST_WAIT = 30.0, 300.0  # seconds from a batch that did not fit to the next trial
STEP = 5.0  # seconds from a trial that fits to the next one
GROWTH = 4  # a trial is larger by one part in so many

Shape = int  # a class of lengths; 0 where lengths are not grouped


@dataclass(slots=True)
class _Limit:
    size: int  # the largest batch that fits, as far as is known
    wait: Seconds  # from a batch that did not fit to the next trial
    trial_at: Seconds  # when a batch may next be larger than `size`


class SafeSizes:
    """The limits of all workers of one model. Where there is none, a batch may be as large as any."""

    __slots__ = ("_largest", "_limits", "_sizes")

    def __init__(self, largest: int, sizes: Sizes = ANY) -> None:
        """`largest`: the largest batch that rules allow. `sizes`: the sizes that batches may have. A padded batch
        needs the memory of the size that is run."""
        self._largest = largest
        self._sizes = sizes
        self._limits: dict[tuple[WorkerId, Shape], _Limit] = {}

    @property
    def known(self) -> bool:
        """Whether any worker has a limit."""
        return bool(self._limits)

    def of(self, worker: WorkerId, shape: Shape) -> int:
        """The largest size that fits, as far as is known."""
        limit = self._limits.get((worker, shape))
        return self._largest if limit is None else limit.size

    def at_most(self, worker: WorkerId, shape: Shape, now: Seconds) -> int:
        """How large the next batch may be. This is larger than what has fitted if a trial is due."""
        limit = self._limits.get((worker, shape))
        if limit is None:
            return self._largest
        return limit.size if now < limit.trial_at else self._larger(limit.size)

    def _larger(self, size: int) -> int:
        wanted = size + 1 if self._sizes.allowed else size + max(1, size // GROWTH)
        return min(self._largest, int(self._sizes.padded(wanted)))

    def _half(self, size: int) -> int:
        return self._sizes.fitting(size // 2) or int(self._sizes.padded(1))

    def did_not_fit(self, worker: WorkerId, shape: Shape, size: int, now: Seconds) -> None:
        """Note that a batch did not fit. `size`: the number of its requests."""
        limit, size = self._limits.get((worker, shape)), int(self._sizes.padded(size))
        if limit is None:
            self._limits[worker, shape] = _Limit(self._half(size), FIRST_WAIT, now + FIRST_WAIT)
            return
        if size > limit.size:
            limit.wait = min(LONGEST_WAIT, 2.0 * limit.wait)
        else:
            limit.size = self._half(size)
        limit.trial_at = now + limit.wait

    def fitted(self, worker: WorkerId, shape: Shape, size: int, now: Seconds) -> None:
        """Note that a batch fitted. `size`: the size that was run."""
        limit = self._limits.get((worker, shape))
        if limit is None or size <= limit.size:
            return
        limit.size, limit.trial_at = size, now + STEP
        if size >= self._largest:
            del self._limits[worker, shape]

    def restore(self, worker: WorkerId, shape: Shape, size: int) -> None:
        """Let batches be as large as before: one input was to blame."""
        limit = self._limits.get((worker, shape))
        if limit is None:
            return
        limit.size = max(limit.size, size)
        if limit.size >= self._largest:
            del self._limits[worker, shape]

    def forget(self, worker: WorkerId) -> None:
        """The worker is never coming back."""
        for key in [key for key in self._limits if key[0] == worker]:
            del self._limits[key]

    def widest(self, workers: Iterable[WorkerId]) -> int:
        """The largest batch that fits into any of these workers, of lengths that are not grouped."""
        return max((self.of(worker, 0) for worker in workers), default=self._largest)

    def smallest(self) -> dict[WorkerId, int]:
        """For each worker that has a limit: the size that fits, for the class of lengths that needs most memory."""
        found: dict[WorkerId, int] = {}
        for (worker, _), limit in self._limits.items():
            found[worker] = min(limit.size, found.get(worker, limit.size))
        return found
