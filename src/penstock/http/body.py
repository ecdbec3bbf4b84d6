"""A body that comes in pieces.

Where many wait for their ends, a large one lies in memory of its own, which goes back to the system in the end. The
allocator would keep it: what a crowd of bodies took that never ended would stay with the process.
"""

import mmap
from typing import Protocol

LARGE = 64 * 1024  # bytes
SMALL = 1024  # bytes: a shorter piece is joined to the one before, for each costs some fifty bytes besides
PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


class Body(Protocol):
    size: int

    def add(self, piece: bytes) -> None: ...

    def whole(self) -> bytes: ...


def body(first: bytes = b"", *, crowded: bool = False) -> Body:
    return _Apart(first) if crowded else _Pieces(first)


class _Pieces:
    __slots__ = ("_pieces", "size")

    def __init__(self, first: bytes) -> None:
        self.size = len(first)
        self._pieces: list[bytes | bytearray] = [first]

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        last = self._pieces[-1]
        if len(piece) >= SMALL:
            self._pieces.append(piece)
        elif isinstance(last, bytearray):
            last += piece
        else:
            self._pieces.append(bytearray(piece))

    def whole(self) -> bytes:
        return b"".join(self._pieces)


class _Apart:
    __slots__ = ("_data", "size")

    def __init__(self, first: bytes) -> None:
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
