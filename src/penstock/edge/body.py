"""A request's body that comes in pieces. Each unfinished request has one (`http1_message.py`, `http2_stream.py`).

While much is held for unfinished requests, a large body lies in memory of its own, which goes back to the system in
the end. Memory from the allocator might stay with the process after many such bodies.

A body that is larger than others may be, as a file that is sent, stays in its pieces to its end: to join them would
hold up everything else for as long as that takes.
"""

import mmap
import os
from collections.abc import Sequence

LARGE = 64 * 1024  # bytes
# Bytes. A shorter piece is joined to the one before, because each piece costs some fifty bytes more.
SMALL = 1024
PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
STRIDE = 256 * 1024  # bytes of a body in pieces for which its client has the time of a whole body


class Pieces:
    """A body that was larger than others may be, as it came."""

    __slots__ = ("pieces",)

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = pieces


Whole = bytes | Pieces  # a body that has come in full


class Body:
    """The pieces of one body. `crowded`: much is held for unfinished requests now."""

    __slots__ = ("_apart", "_length", "_pieces", "in_pieces", "size")

    def __init__(self, first: bytes = b"", length: int = 0) -> None:
        """`length`: the bytes of the whole body, where that is known."""
        self.size = len(first)
        self.in_pieces = False
        self._length = length
        self._pieces: list[bytes | bytearray] = [first]
        self._apart: mmap.mmap | None = None  # the memory of its own, once the body has some

    def add(self, piece: bytes, *, crowded: bool = False) -> None:
        start, end = self.size, self.size + len(piece)
        room = self._room(end, crowded)
        self.size = end
        if room is None:
            self._append(piece)
        else:
            room[start:end] = piece

    def read(self, descriptor: int, most: int, *, crowded: bool = False) -> int:
        """Add what can be read from the descriptor now, up to `most` bytes. Returns how many it was; 0 at the
        end."""
        start, end = self.size, self.size + most
        room = self._room(end, crowded)
        if room is None:
            piece = os.read(descriptor, most)
            self._append(piece)
            came = len(piece)
        else:
            with memoryview(room) as whole:
                came = os.readv(descriptor, [whole[start:end]])
        self.size += came
        return came

    def _room(self, end: int, crowded: bool) -> mmap.mmap | None:
        """Returns the body's own memory, with room up to `end`; None if it is not to have any."""
        if self.in_pieces or (self._apart is None and not (crowded and max(end, self._length) > LARGE)):
            return None
        if self._apart is None or end > len(self._apart):
            self._move(self.size, max(2 * end, self._length))  # pages that are not written to take no memory
        return self._apart

    def _append(self, piece: bytes) -> None:
        last = self._pieces[-1]
        if len(piece) >= SMALL:
            self._pieces.append(piece)
        elif isinstance(last, bytearray):
            last += piece
        else:
            self._pieces.append(bytearray(piece))

    def _move(self, size: int, room: int) -> None:
        apart = mmap.mmap(-1, room, flags=PRIVATE)
        apart[:size] = b"".join(self._pieces) if self._apart is None else self._apart[:size]
        self._apart = apart
        self._pieces = [b""]

    def stay_in_pieces(self) -> None:
        """Keep the pieces apart from now on."""
        self.in_pieces = True
        if self._apart is not None:
            self._pieces, self._apart = [self._apart[: self.size]], None

    def whole(self) -> Whole:
        if self.in_pieces:
            return Pieces([bytes(piece) if isinstance(piece, bytearray) else piece for piece in self._pieces])
        return self.joined()

    def joined(self) -> bytes:
        return b"".join(self._pieces) if self._apart is None else self._apart[: self.size]
