"""A body that comes in pieces.

A large one lies in memory of its own, which goes back to the system when it is gone. The allocator would keep it:
what a crowd of bodies took that never ended would stay with the process.
"""

import mmap

LARGE = 64 * 1024  # bytes
PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


class Body:
    __slots__ = ("_data", "size")

    def __init__(self, first: bytes = b"") -> None:
        self.size = len(first)
        self._data: bytearray | mmap.mmap = bytearray(first)

    def add(self, piece: bytes) -> None:
        start, end = self.size, self.size + len(piece)
        self.size = end
        data = self._data
        if isinstance(data, bytearray) and end <= LARGE:
            data += piece
            return
        if isinstance(data, bytearray) or end > len(data):  # pages that are not written to take no memory
            self._data = mmap.mmap(-1, 2 * end, flags=PRIVATE)
            self._data[:start] = bytes(data[:start])
        self._data[start:end] = piece

    def whole(self) -> bytes:
        return bytes(self._data[: self.size])
