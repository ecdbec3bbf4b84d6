"""Answers that are given again (SPEC D7), and in their place, until there is one, whatever is under way for it.

A place is known by everything that makes an answer: the whole input, the model at its version, who may have it, the
parameters. Compared as they are, no two can be taken for each other; and that costs a fifth of what a digest does.

Bounded by number and by bytes. The oldest goes first, unless it was asked for since it was last looked at: then it
has another turn. That is nearly the order of use, and a hit costs no more than a note.
"""

from collections import deque

from penstock.types import Seconds

Place = tuple[bytes, str, str, bytes]  # input, model and version, tenant ("" where all share it), parameters
# Output, version, for whom it was made, when its time is over, and its place. A plain tuple of plain things: the
# cycle collector forgets it at first sight, and a hundred thousand of them do not slow it down.
Remembered = tuple[bytes, str, str | bytes, Seconds, Place]

OVERHEAD = 500  # bytes of an entry besides input and output
LARGEST_PART = 16  # an entry above this part of all bytes would push out too many others


class Memory:
    __slots__ = ("_max_bytes", "_max_entries", "_queue", "bytes", "evicted", "largest", "places", "used")

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self.places: dict[Place, object] = {}  # a `Remembered`, or what its owner keeps there meanwhile
        self.used: set[Place] = set()  # asked for since they were last looked at
        self._queue: deque[Remembered] = deque()  # also those whose place has been taken by another since
        self._max_entries, self._max_bytes = max_entries, max_bytes
        self.largest = max_bytes // LARGEST_PART
        self.bytes = 0
        self.evicted = 0  # before their time

    def put(
        self, place: Place, output: bytes, version: str, maker: str | bytes, expires: Seconds, now: Seconds
    ) -> bool:
        """Whether it was taken: what is too large is not, and its place is empty then."""
        size = OVERHEAD + len(place[0]) + len(output)
        if size > self.largest:
            self.places.pop(place, None)
            return False
        entry: Remembered = (output, version, maker, expires, place)
        self.places[place] = entry
        queue = self._queue
        queue.append(entry)
        self.bytes += size
        while queue[0][3] <= now or len(queue) > self._max_entries or self.bytes > self._max_bytes:
            self._look_at(queue.popleft(), now)
        return True

    def _look_at(self, entry: Remembered, now: Seconds) -> None:
        output, _, _, expires, place = entry
        found = self.places.pop(place, None)
        if found is not entry:
            if found is not None:
                self.places[place] = found  # another's by now
        elif expires > now:
            if self.used and place in self.used:
                self.used.discard(place)
                self.places[place] = entry
                self._queue.append(entry)
                return
            self.evicted += 1
        else:
            self.used.discard(place)
        self.bytes -= OVERHEAD + len(place[0]) + len(output)
