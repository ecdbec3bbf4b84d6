"""Requests sorted by one of their time limits, the earliest first: the queue of one tenant (`tier`), and the two
queues in which `by_urgency` finds the requests whose time is up.

They nearly always come in order, since most have the same time limits; then this is a plain queue and every
operation is O(1). The few that come out of order go to a heap beside it, at O(log n).

A request that no longer waits is called dead, and is dropped when it comes to the front.
"""

from collections import deque
from heapq import heapify, heappop, heappush

from penstock.core.queued import Queued
from penstock.core.room import Room
from penstock.types import Seconds

Entry = tuple[Seconds, int, Queued]  # the number keeps equal times in the order they came, and breaks ties


class Ordered:
    __slots__ = ("_heap", "_run")

    def __init__(self) -> None:
        self._run: deque[Entry] = deque()  # the requests that came in order
        self._heap: list[Entry] = []  # the requests that came out of order

    def __len__(self) -> int:
        """How many entries there are, the dead included."""
        return len(self._run) + len(self._heap)

    def push(self, entry: Entry) -> None:
        run = self._run
        if not run or entry[0] >= run[-1][0]:
            run.append(entry)
        else:
            heappush(self._heap, entry)

    def extend(self, entries: list[Entry]) -> None:
        """Take in entries that are in order among themselves."""
        run = self._run
        if not run or entries[0][0] >= run[-1][0]:
            run.extend(entries)
        else:
            for entry in entries:
                self.push(entry)

    def first(self) -> Entry | None:
        """The entry of the earliest request that waits; None if none does."""
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

    def take(self, most: int, room: Room | None) -> list[Queued]:
        """Take out the earliest requests that wait: `most` at most, and while there is room for the next. If `room`
        is None there always is."""
        run, taken = self._run, list[Queued]()
        if room is None and not self._heap:
            while run and most > 0:
                request = run.popleft()[2]
                if request.waiting:
                    request.waiting = False
                    taken.append(request)
                    most -= 1
            return taken
        while len(taken) < most:
            first = self.first()
            if first is None:
                break
            request = first[2]
            if room is not None and not room.takes(request.cost):
                break
            request.waiting = False
            taken.append(request)
        return taken

    def compact(self) -> None:
        """Drop all the dead."""
        self._run = deque([entry for entry in self._run if entry[2].waiting])
        self._heap = [entry for entry in self._heap if entry[2].waiting]
        heapify(self._heap)
