"""How many requests of a `map` may be under way, while the server refuses some. `workload.py` asks it before each
request. Pure: times are handed in.

A refusal (429, 503) is no failure of the input: all wait as long as the server says, and then fewer are under way.
With each answer the number grows again, slowly, up to the concurrency that was asked for.
"""

LESS = 0.7  # what a refusal leaves of the number
GROWTH = 4.0  # how much the number grows while as many are answered


class Pace:
    def __init__(self, most: int) -> None:
        self._most = float(most)
        self.limit = float(most)
        self.until = float("-inf")  # nothing is sent before

    def allows(self, under_way: int, now: float) -> bool:
        return under_way < self.limit and now >= self.until

    def refused(self, wait: float, now: float) -> None:
        """The server refused a request, which may come again after the wait. Refusals during the wait that one of
        them began are of the same crowd, and count once."""
        if now >= self.until:
            self.limit = max(1.0, self.limit * LESS)
        self.until = max(self.until, now + wait)

    def answered(self) -> None:
        if self.limit < self._most:
            self.limit = min(self._most, self.limit + GROWTH / self.limit)
