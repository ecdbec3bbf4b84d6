"""Answers that are given again (SPEC D7), bounded by number and by bytes: the one not used for longest goes."""

from collections import OrderedDict
from typing import NamedTuple

from penstock.types import Seconds

OVERHEAD = 400  # bytes of an entry besides its output
LARGEST_PART = 16  # an output above this part of all bytes would push out too many others


class Remembered(NamedTuple):
    output: bytes
    version: str  # of the model that made it
    maker: bytes  # for whom it was made, where others are given it too
    expires: Seconds


class Memory:
    __slots__ = ("_entries", "_max_bytes", "_max_entries", "bytes", "evicted", "largest")

    def __init__(self, max_entries: int, max_bytes: int) -> None:
        self._entries: OrderedDict[bytes, Remembered] = OrderedDict()  # the one used last at the end
        self._max_entries, self._max_bytes = max_entries, max_bytes
        self.largest = max_bytes // LARGEST_PART - OVERHEAD
        self.bytes = 0
        self.evicted = 0  # before their time

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, fingerprint: bytes, now: Seconds) -> Remembered | None:
        entry = self._entries.get(fingerprint)
        if entry is None:
            return None
        if entry.expires <= now:
            del self._entries[fingerprint]
            self.bytes -= OVERHEAD + len(entry.output)
            return None
        self._entries.move_to_end(fingerprint)
        return entry

    def put(self, fingerprint: bytes, entry: Remembered, now: Seconds) -> bool:
        """Whether it was taken: one that is too large is not."""
        size = len(entry.output)
        if size > self.largest:
            return False
        entries = self._entries
        former = entries.pop(fingerprint, None)
        if former is not None:
            self.bytes -= OVERHEAD + len(former.output)
        entries[fingerprint] = entry
        self.bytes += OVERHEAD + size
        while len(entries) > self._max_entries or self.bytes > self._max_bytes:
            _, gone = entries.popitem(last=False)
            self.bytes -= OVERHEAD + len(gone.output)
            self.evicted += gone.expires > now
        return True
