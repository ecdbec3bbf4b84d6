"""How many requests of a `map` may be under way, while the server refuses some. `workload.py` asks it before each
request. Pure: times are handed in.

A refusal (429, 503) is no failure of the input: all wait as long as the server says, and then fewer are under way.
With each answer the number grows again, slowly, up to the concurrency that was asked for.
"""

LESS = 0.7  # the part of the number that a refusal leaves
GROWTH = 4.0  # the number grows by so much while as many requests as the number says are answered


class Pace:
    """The number of requests that may be under way, and until when none may be sent."""

    def __init__(self, most: int) -> None:
        """`most`: the concurrency that was asked for."""
        self._most = float(most)
        self.limit = float(most)  # as many may be under way now
        self.until = float("-inf")  # no request is sent before this time

    def allows(self, under_way: int, now: float) -> bool:
        """Returns whether another request may be sent now."""
        return under_way < self.limit and now >= self.until

    def refused(self, wait: float, now: float) -> None:
        """Notes that the server refused a request, which may come again after `wait` seconds. Refusals that come
        during such a wait count once, together with the one that began it."""
        if now >= self.until:
            self.limit = max(1.0, self.limit * LESS)
        self.until = max(self.until, now + wait)

    def answered(self) -> None:
        """Notes that a request was answered."""
        if self.limit < self._most:
            self.limit = min(self._most, self.limit + GROWTH / self.limit)
