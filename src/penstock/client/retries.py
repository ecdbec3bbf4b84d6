"""When a request is sent again, and when no more. `AsyncClient.infer` asks after each try that failed
(`async_client.py`), and so does a `map` (`workload.py`), which has no `Budget`. Pure: times, and a random number,
are handed in.

which errors          a refusal for a time, a request that never arrived, a connection that broke off
after which wait      what Retry-After says and up to a tenth more, so that clients do not come back all at once;
                      without it, the waits double, and are cut by up to a half at random
not at all            if the wait would end after the deadline: then the error is told at once
how many              in the long run a fifth of the requests, and ten beside, so that clients do not finish off a
                      server that is in trouble
"""

from dataclasses import dataclass

from penstock.client.errors import InferenceError


@dataclass(frozen=True, slots=True)
class Retries:
    """How often to try again. `Retries(attempts=1)`: never."""

    attempts: int = 4  # tries in all
    first_wait: float = 0.1  # seconds, where the server does not say how long
    longest_wait: float = 5.0  # seconds, in the same case
    budget: float = 0.2  # retries for each request, in the long run
    reserve: float = 10.0  # retries beside those

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError("attempts must be at least 1: the first try counts")
        if min(self.first_wait, self.longest_wait, self.budget, self.reserve) < 0:
            raise ValueError("waits, budget and reserve must not be below 0")

    def wait(self, error: InferenceError, tries: int, left: float | None, luck: float) -> float | None:
        """Returns how long to wait before the next try; None to give up. `left`: seconds to the deadline. `luck`: a
        random number, 0 to 1."""
        if not error.again or tries >= self.attempts:
            return None
        wait = self.pause(error, tries, luck)
        return None if left is not None and wait >= left else wait

    def pause(self, error: InferenceError, tries: int, luck: float) -> float:
        """Returns how many seconds to wait after so many tries. `luck`: a random number, 0 to 1."""
        if error.retry_after is not None:
            return error.retry_after * (1.0 + luck / 10.0)
        return min(self.longest_wait, self.first_wait * 2.0 ** min(tries - 1, 30)) * (1.0 - luck / 2.0)


class Budget:
    """How many retries a client has left."""

    def __init__(self, rules: Retries) -> None:
        self._share, self._most = rules.budget, rules.reserve
        self.left = rules.reserve

    def sent(self) -> None:
        """Notes that a request is sent for the first time."""
        if self.left < self._most:
            self.left = min(self._most, self.left + self._share)

    def take(self) -> bool:
        """Uses up one retry. Returns False if none is left."""
        if self.left < 1.0:
            return False
        self.left -= 1.0
        return True
