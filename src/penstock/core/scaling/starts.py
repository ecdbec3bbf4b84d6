"""How long it takes from the decision to have one more worker until it can take a batch. The `predicted` rules look
ahead by this time, and a client that asks while no worker runs is told it.

Nobody says which worker became ready. So a start has come when more are ready than there were, and more than there
should be without those that were asked for. A worker that is started anew beside them, for whatever reason, is none
of them. A start that took far longer than it may was held up by something else (a pod waits for a node), and says
nothing of starts.
"""

from collections import deque

from penstock.types import Seconds

REMEMBERED = 8  # starts
TOO_LONG = 30.0  # times what a start is believed to take: one that took longer was held up


class Starts:
    """Starts that are under way, and how long the last ones took."""

    __slots__ = ("_believed", "_ready", "_taken", "_under_way", "_wanted")

    def __init__(self, believed: Seconds, present: int = 0) -> None:
        """`believed`: how long a start takes, until one was measured. `present`: how many workers there are
        already, or are about to be."""
        self._believed = believed
        self._taken: deque[Seconds] = deque(maxlen=REMEMBERED)
        self._under_way: deque[Seconds] = deque()  # when each was asked for, the oldest first
        self._ready = 0  # workers that were ready at the last look
        self._wanted = present  # workers, those that start included

    @property
    def measured(self) -> bool:
        return bool(self._taken)

    @property
    def seconds(self) -> Seconds:
        """How long a start takes: the mean of the last ones."""
        return sum(self._taken) / len(self._taken) if self._taken else self._believed

    def asked(self, change: int, now: Seconds) -> None:
        """Take in that so many more workers were asked for; or fewer, and then the latest starts are called off."""
        self._wanted += change
        self._under_way.extend([now] * change)
        for _ in range(min(-change, len(self._under_way))):
            self._under_way.pop()

    def look(self, ready: int, now: Seconds) -> None:
        """Take in how many workers are ready: of those asked for, the oldest came first."""
        there = self._wanted - len(self._under_way)
        longest = TOO_LONG * max(self._believed, self.seconds)
        for _ in range(min(ready - max(self._ready, there), len(self._under_way))):
            took = now - self._under_way.popleft()
            if took <= longest:
                self._taken.append(took)
        if ready >= self._wanted:  # all are there, if only for another model's sake
            self._under_way.clear()
        self._ready = ready

    def next_in(self, now: Seconds) -> Seconds | None:
        """Seconds until the next worker should be ready; 0 if it is late. None if none is on its way."""
        return max(0.0, self._under_way[0] + self.seconds - now) if self._under_way else None
