"""How long it takes from the decision to have one more worker until it can take a batch. The `predicted` rules look
ahead by this time, and a client that asks while no worker runs is told it."""

from collections import deque

from penstock.types import Seconds

REMEMBERED = 8  # starts


class Starts:
    """Starts that are under way, and how long the last ones took."""

    __slots__ = ("_believed", "_ready", "_taken", "_under_way")

    def __init__(self, believed: Seconds) -> None:
        """`believed`: how long a start takes, until one was measured."""
        self._believed = believed
        self._taken: deque[Seconds] = deque(maxlen=REMEMBERED)
        self._under_way: deque[Seconds] = deque()  # when each was asked for, the oldest first
        self._ready = 0  # workers that were ready at the last look

    @property
    def measured(self) -> bool:
        return bool(self._taken)

    @property
    def seconds(self) -> Seconds:
        """How long a start takes: the mean of the last ones."""
        return sum(self._taken) / len(self._taken) if self._taken else self._believed

    def asked(self, change: int, now: Seconds) -> None:
        """Take in that so many more workers were asked for; or fewer, and then the latest starts are called off."""
        self._under_way.extend([now] * change)
        for _ in range(min(-change, len(self._under_way))):
            self._under_way.pop()

    def look(self, ready: int, now: Seconds) -> None:
        """Take in how many workers are ready: of those asked for, the oldest came first."""
        for _ in range(min(ready - self._ready, len(self._under_way))):
            self._taken.append(now - self._under_way.popleft())
        self._ready = ready

    def next_in(self, now: Seconds) -> Seconds | None:
        """Seconds until the next worker should be ready; 0 if it is late. None if none is on its way."""
        return max(0.0, self._under_way[0] + self.seconds - now) if self._under_way else None
