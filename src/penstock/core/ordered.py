"""Requests sorted by one of their time limits, the earliest first. Used by `by_urgency` and `tier`.

They nearly always come in order, since most have the same time limits; then this is a plain queue and every
operation is O(1). The few that come out of order go to a heap beside it, at O(log n).
A request that no longer waits is called dead, and is dropped when it comes to the front.
"""

from collections import deque
from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from penstock.core.queued import Queued
from penstock.types import Seconds

Entry = tuple[Seconds, int, Queued]  # the number keeps equal times in the order they came, and breaks ties


class Ordered:
    __slots__ = ("_heap", "_run")

    def __init__(self) -> None:
        self._run: deque[Entry] = deque()
        self._heap: list[Entry] = []

    def __len__(self) -> int:
        """How many entries there are, the dead included."""
        return len(self._run) + len(self._heap)

    def push(self, entry: Entry) -> None:
        run = self._run
        if not run or entry[0] >= run[-1][0]:
            run.append(entry)
        else:
            heappush(self._heap, entry)

    def first(self) -> Entry | None:
        """The entry of the earliest request that waits."""
        run, heap = self._run, self._heap
        while run and not run[0][2].waiting:
            run.popleft()
        if not heap:
            return run[0] if run else None
        while heap and not heap[0][2].waiting:
            heappop(heap)
        if not run or (heap and heap[0] < run[0]):
            return heap[0] if heap else None
        return run[0]

    def each(self) -> Iterator[Queued]:
        """All requests that wait, the earliest first. The caller must take each (clear `waiting`) before it asks
        for the next."""
        run = self._run
        while run and not self._heap:
            request = run[0][2]
            if request.waiting:
                yield request
            run.popleft()
        while (first := self.first()) is not None:
            yield first[2]

    def compact(self) -> None:
        self._run = deque([entry for entry in self._run if entry[2].waiting])
        self._heap = [entry for entry in self._heap if entry[2].waiting]
        heapify(self._heap)
