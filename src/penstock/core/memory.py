"""Answers that are given again, each at the place of what was under way for it.

Bounded by number and by bytes. The oldest goes first, unless it was asked for since it was last looked at: then it
has another turn. That is nearly the order of use, and a hit costs no more than a note.
"""

from collections import deque
from typing import Generic, TypeVar

from penstock.core.places import Place, Places
from penstock.types import Seconds

# A remembered answer: output, version, for whom it was made, when its time is over, and its place. It is a plain
# tuple of plain things. The cycle collector forgets it at first sight, so a hundred thousand of them do not slow
# it down.
Remembered = tuple[bytes, str, str | bytes, Seconds, Place]

Owner = TypeVar("Owner")

OVERHEAD = 800  # bytes that an answer counts for besides input and output
LARGEST_PART = 16  # an answer above this part of all bytes would push out too many others


class Memory(Generic[Owner]):
    """Remembered answers, bounded. `Owner`: what else stands in places meanwhile."""

    __slots__ = ("_max_bytes", "_max_entries", "_queue", "bytes", "evicted", "largest", "places", "used")

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        # The places of remembered answers, and of what their owners keep there meanwhile.
        self.places: Places[Remembered | Owner] = Places()
        self.used: set[Place] = set()  # the places asked for since they were last looked at
        # entries, the oldest first; also those whose place has been taken by another since
        self._queue: deque[Remembered] = deque()
        self._max_entries, self._max_bytes = max_entries, max_bytes
        self.largest = max_bytes // LARGEST_PART
        self.bytes = 0
        self.evicted = 0  # answers that went before their time

    def put(
        self, place: Place, output: bytes, version: str, maker: str | bytes, expires: Seconds, now: Seconds
    ) -> bool:
        """Keep an answer. Gives whether it was taken: what is too large is not."""
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
        """Forget an answer, and free its place. It goes on counting until it would have been looked at."""
        self.places.remove(entry[4], entry)
        self.used.discard(entry[4])

    def _look_at(self, entry: Remembered, now: Seconds) -> None:
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
