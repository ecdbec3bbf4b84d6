"""How long to wait before trying again, and how often trying again is allowed."""

from penstock.types import Seconds

GOLDEN = 0.6180339887498949  # multiples of it fall evenly into [0, 1): jitter without randomness


def backoff(attempt: int, base: Seconds, longest: Seconds, salt: int = 0) -> Seconds:
    """Seconds to wait before this attempt: exponential, with jitter over the upper half. Attempt 1 waits about
    `base`."""
    whole = min(longest, base * 2.0 ** (attempt - 1))
    return whole * (0.5 + 0.5 * ((salt * GOLDEN) % 1.0))


class RetryBudget:
    """How many retries are allowed: a fraction of fresh batches, and a few a second besides, so that there are no
    storms."""

    __slots__ = ("_last", "_per_second", "_ratio", "_tokens", "limit")

    def __init__(self, ratio: float, per_second: float, limit: float = 100.0) -> None:
        self._ratio = ratio
        self._per_second = per_second
        self.limit = limit
        self._tokens = limit
        self._last = 0.0

    def earn(self) -> None:
        """Note that a fresh batch was sent."""
        self._tokens = min(self.limit, self._tokens + self._ratio)

    def spend(self, now: Seconds) -> bool:
        self._tokens = min(self.limit, self._tokens + max(0.0, now - self._last) * self._per_second)
        self._last = max(self._last, now)
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True
