"""How long to wait before trying again, and how often trying again is allowed.

The retries of batches go by both (`delivery`). Many others go by `backoff` alone: slots whose backend died,
webhooks, the autoscaler, the simulator, and `penstock up`, which starts processes anew. The callers wait; here the
time is only calculated.
"""

from penstock.types import Seconds

GOLDEN = 0.6180339887498949  # multiples of it fall evenly into [0, 1): jitter without randomness


def backoff(attempt: int, base: Seconds, longest: Seconds, salt: int = 0) -> Seconds:
    """Returns the seconds to wait once attempt number `attempt` has failed, before the next one. They grow
    exponentially, with jitter over the upper half: after the first attempt, from half of `base` up to `base`. Those
    who start together pass different numbers as `salt`."""
    whole = min(longest, base * 2.0 ** (attempt - 1))
    return whole * (0.5 + 0.5 * ((salt * GOLDEN) % 1.0))


class RetryBudget:
    """How many retries are allowed: a fraction of the number of fresh batches, and a few a second besides. So there
    are no storms of retries."""

    __slots__ = ("_last", "_per_second", "_ratio", "_tokens", "limit")

    def __init__(self, ratio: float, per_second: float, limit: float = 100.0) -> None:
        self._ratio = ratio
        self._per_second = per_second
        self.limit = limit  # the most retries that can be saved up
        self._tokens = limit  # the retries that were left at the time `_last`
        self._last = 0.0

    def earn(self) -> None:
        """Note that a fresh batch was sent."""
        self._tokens = min(self.limit, self._tokens + self._ratio)

    def left(self, now: Seconds) -> float:
        """Returns the part of the budget, 0 to 1, that is left."""
        return min(self.limit, self._tokens + max(0.0, now - self._last) * self._per_second) / self.limit

    def spend(self, now: Seconds) -> bool:
        """Take one retry from the budget. Returns False if none is left."""
        self._tokens = min(self.limit, self._tokens + max(0.0, now - self._last) * self._per_second)
        self._last = max(self._last, now)
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True
