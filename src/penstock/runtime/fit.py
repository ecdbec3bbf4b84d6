"""What size of batch fits into the memory of a worker, as its slot has seen it. Each slot notes its batches here;
the log and the list of workers show it.

The worker's batcher sees the same failures, and decides how large the worker's batches may be (`core.safe_sizes`).
"""

import logging

from penstock.errors import BackendOutOfMemory
from penstock.types import Failure, Result, WorkerId

log = logging.getLogger("penstock.worker")


def is_too_large(outcome: Result | Failure, size: int) -> bool:
    """Whether a batch failed because of its size, so that smaller ones may be answered."""
    return isinstance(outcome, Failure) and outcome.code == BackendOutOfMemory.code and size > 1


class Fit:
    """The largest batch that fits (`size`); None while none was too large."""

    def __init__(self, worker: WorkerId) -> None:
        self._worker = worker
        self._too_large = 0  # the last size that did not fit
        self.size: int | None = None

    def fits(self, size: int) -> None:
        """Note that a batch of this size was answered."""
        if self.size is not None and size > self.size:
            self.size = None if size >= self._too_large else size

    def is_below(self, size: int) -> None:
        """Note that a batch of this size did not fit."""
        half, self._too_large = max(1, size // 2), size
        if self.size is None:
            log.warning(
                "out of memory: the worker has smaller batches, until a larger one is tried again",
                extra={"worker": self._worker, "size": size, "at_most": half},
            )
        self.size = half if self.size is None else min(self.size, half)
