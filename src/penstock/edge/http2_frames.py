"""Bounds what a client may send as HTTP/2, before the library reads it. A connection of HTTP/2 passes every byte
through its `FrameWatch` (`http2.py`).

The library reads whole frames, of any size, and does what each says. This file looks only at the nine bytes with
which a frame begins. A frame that is too long ends the connection at its first byte. Idle frames ask for nothing:
pings, settings, resets, empty pieces of a body. A client that sends more of them than its requests and our answers
explain is disconnected. A piece of a body that is hardly longer than its frame, or that comes for a request that
has ended, counts as a quarter of an idle frame.

    a frame            16 KiB
    a request's head   64 KiB, in however many frames
    idle frames        1,000 saved up, 100 a second, 2 for each answer and for each piece of one; a message that
                       answers another on a stream of gRPC is an answer, however many go out together

Each frame costs the library some fifty microseconds, however small it is. So one turn of the loop handles only a
few.
"""

from collections.abc import Container
from enum import IntEnum, IntFlag

PREFACE = 24  # bytes before the first frame
HEAD = 9  # bytes with which each frame begins
MOST_FRAME = 16_384  # bytes
MOST_HEAD = 64 * 1024  # bytes
MOST_IDLE = 1000  # idle frames that may be saved up
IDLE_PER_SECOND = 100.0
SMALL = 256  # bytes: a shorter piece of a body is hardly worth its frame; no client can pad it with more
QUARTER = 0.25  # what a piece of hardly any use counts, in idle frames
MOST_WORK = 48  # work in one turn: a frame is 1
HEAD_WORK = 8  # the work of a frame that begins a request


class Kind(IntEnum):
    """Kinds of frames (RFC 9113, 6)."""

    DATA = 0
    HEADERS = 1
    CONTINUATION = 9


class Flag(IntFlag):
    """Flags of frames."""

    END_STREAM = 0x1
    END_HEADERS = 0x4
    PADDED = 0x8


class TooMuch(Exception):
    """The client is asked to calm down, and its connection ends."""


class FrameWatch:
    """What one client has sent, counted frame by frame."""

    def __init__(self, now: float) -> None:
        self._skip = PREFACE  # bytes until the next frame's head
        self._head = b""
        self._block = 0  # bytes of a request's head so far, where more of it must follow
        self._allowed = float(MOST_IDLE)  # idle frames that the client may still send
        self._looked_at = now
        # streams: the last that has begun, and the last that had begun before this look
        self._newest = self._opened = 0
        self.begun = False  # whether there has been a frame
        self.wasted = False  # whether much of what was looked at last asked for nothing

    @property
    def pending(self) -> bool:
        """Whether a frame, or a request's head, has begun and not ended."""
        return bool(self._skip or self._head or self._block)

    @property
    def unfinished(self) -> int:
        """Bytes of a request's head that are kept until the rest of it comes."""
        return self._block

    def look(self, data: bytes | memoryview, now: float, streams: Container[int] = ()) -> int:
        """Returns how many of these bytes can be handled in this turn. `streams`: the open ones. Raises TooMuch."""
        self._allowed = min(MOST_IDLE, self._allowed + (now - self._looked_at) * IDLE_PER_SECOND)
        self._looked_at = now
        self._opened = self._newest
        before = self._allowed
        at, end, work = 0, len(data), 0
        while at < end and work < MOST_WORK:
            if self._skip:
                step = min(self._skip, end - at)
                self._skip -= step
            else:
                step = min(HEAD - len(self._head), end - at)
                self._head += data[at : at + step]
                if len(self._head) == HEAD:
                    work += self._weigh(self._head, streams)
                    self._head = b""
            at += step
        self.wasted = before - self._allowed > work / 8
        return at

    def _weigh(self, head: bytes, streams: Container[int]) -> int:
        length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
        number = int.from_bytes(head[5:], "big") & 0x7FFFFFFF
        self.begun = True
        self._skip = length
        if length > MOST_FRAME:
            raise TooMuch("a frame is too long")
        if kind == Kind.DATA:
            self._weigh_piece(length, flags, late=number <= self._opened and number not in streams)
            return 1
        if kind not in (Kind.HEADERS, Kind.CONTINUATION):
            self.spend()
            return 1
        self._newest = max(self._newest, number)
        self._block += length
        if self._block > MOST_HEAD:
            raise TooMuch("a request's head is too long")
        if flags & Flag.END_HEADERS:
            self._block = 0
        else:
            self._block = max(1, self._block)  # a head may begin with an empty block
            self.spend()
        return HEAD_WORK

    def _weigh_piece(self, length: int, flags: int, *, late: bool) -> None:
        if late:
            self.spend(QUARTER)
        if flags & Flag.END_STREAM:
            return
        useful = length - SMALL if flags & Flag.PADDED else length
        if useful <= 0:
            self.spend()
        elif useful < SMALL:
            self.spend(QUARTER)

    def spend(self, part: float = 1.0) -> None:
        self._allowed -= part
        if self._allowed < 0:
            raise TooMuch("too many frames that ask for nothing")

    def earn(self, answers: int = 1) -> None:
        """Allow the client two more idle frames for each of so many answers or pieces: we have sent something, for
        which it may move its windows."""
        self._allowed = min(MOST_IDLE, self._allowed + 2 * answers)
