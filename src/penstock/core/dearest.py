"""What the dearest request costs of those that wait in one lane. The lane's `buffer` keeps it up to date for models
where a batch costs rows × its dearest request.

A request that no longer waits is dead, and is dropped when it comes to the front, or with all the dead once they
outnumber the living by far.
"""

from heapq import heapify, heappop, heappush

from penstock.core.queued import Queued

SLACK = 512  # dead entries not worth compacting for


class Dearest:
    __slots__ = ("_heap", "_sequence")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Queued]] = []  # the cost, negative; a number that breaks ties
        self._sequence = 0

    def __len__(self) -> int:
        """How many requests stand here, the dead included."""
        return len(self._heap)

    def push(self, request: Queued) -> None:
        self._sequence += 1
        heappush(self._heap, (-request.cost, self._sequence, request))

    @property
    def cost(self) -> float:
        """What the dearest request that waits costs; 0 if none waits."""
        heap = self._heap
        while heap and not heap[0][2].waiting:
            heappop(heap)
        return -heap[0][0] if heap else 0.0

    def tidy(self, waiting: int) -> None:
        """Drop the dead if they outnumber the requests that wait by far. `waiting`: how many wait."""
        if len(self._heap) > 4 * waiting + SLACK:
            self.compact()

    def compact(self) -> None:
        """Drop all that are dead."""
        self._heap = [entry for entry in self._heap if entry[2].waiting]
        heapify(self._heap)
