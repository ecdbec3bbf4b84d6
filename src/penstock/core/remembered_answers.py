"""The answers of deterministic models that a gateway remembers, to give them again: its cache. `runtime/collapse`
looks here before it has a request executed, and adds each answer.

Each answer has a place (see `places`), where before that its request was under way. The memory is bounded by number
and by bytes. The oldest answer goes first, unless it was asked for since it was last looked at: then it stays for
another round. That is nearly the order of last use, and a hit costs no more than a note.
"""

from collections import deque
from typing import Generic, TypeVar

from penstock.core.places import Place, Places
from penstock.types import Seconds

# A remembered answer: output, version, for whom it was made, when its time is over, and its place. A tuple that
# holds only plain values is dropped from the cycle collector's lists, so a hundred thousand do not slow that down.
Remembered = tuple[bytes, str, str | bytes, Seconds, Place]

Owner = TypeVar("Owner")

OVERHEAD = 800  # bytes that an answer counts for besides input and output
LARGEST_PART = 1 / 16  # of all bytes: a larger answer is not kept, since it would push out too many others


class RememberedAnswers(Generic[Owner]):
    """Remembered answers, bounded. `Owner`: what stands in a place while its answer is under way."""

    __slots__ = ("_max_bytes", "_max_entries", "_queue", "bytes", "evicted", "largest", "places", "used")

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        # The places of remembered answers, and of requests that are under way.
        self.places: Places[Remembered | Owner] = Places()
        self.used: set[Place] = set()  # the places asked for since their answers were last looked at
        # The answers, the oldest first, and also those whose place has been taken by another since.
        self._queue: deque[Remembered] = deque()
        self._max_entries, self._max_bytes = max_entries, max_bytes
        self.largest = int(max_bytes * LARGEST_PART)  # bytes that one answer may count for
        self.bytes = 0  # what all answers count for
        self.evicted = 0  # answers that went before their time

    def put(
        self, place: Place, output: bytes, version: str, maker: str | bytes, expires: Seconds, now: Seconds
    ) -> bool:
        """Keep an answer. Returns whether it was kept: one that is too large is not."""
        size = OVERHEAD + len(place[0]) + len(output)
        if size > self.largest:
            return False
        entry: Remembered = (output, version, maker, expires, place)
        self.places.put(place, entry)
        queue = self._queue
        queue.append(entry)
        self.bytes += size
        while queue[0][3] <= now or len(queue) > self._max_entries or self.bytes > self._max_bytes:
            self._look_at(queue.popleft(), now)
        return True

    def forget(self, entry: Remembered) -> None:
        """Forget an answer, and free its place. It counts for the bounds until its turn in the queue comes."""
        self.places.remove(entry[4], entry)
        self.used.discard(entry[4])

    def _look_at(self, entry: Remembered, now: Seconds) -> None:
        """Drop the oldest answer, or keep it for another round if it was asked for."""
        output, _, _, expires, place = entry
        if self.places.get(place) is entry:  # its place may be another's by now
            if expires > now and place in self.used:
                self.used.discard(place)
                self._queue.append(entry)
                return
            self.forget(entry)
            if expires > now:
                self.evicted += 1
        self.bytes -= OVERHEAD + len(place[0]) + len(output)
