"""What a client may send as HTTP/2 before anything is kept of it.

The library reads whole frames, of any size, and does as it is told by each. Here only their nine bytes of head are
looked at: a frame that is too long ends the connection at its first byte. So does a client that sends more frames
that ask for nothing (pings, settings, resets, empty pieces) than its requests and our answers can explain.

    a frame            16 KiB
    a request's head   64 KiB, in however many frames
    idle frames        1,000 saved up, 100 a second, 2 for each answer and for each piece of one
"""

from enum import IntEnum, IntFlag

PREFACE = 24  # bytes before the first frame
HEAD = 9
MOST_FRAME = 16_384
MOST_HEAD = 64 * 1024
MOST_IDLE = 1000
IDLE_PER_SECOND = 100.0


class Kind(IntEnum):
    DATA = 0
    HEADERS = 1
    CONTINUATION = 9


class Flag(IntFlag):
    END_STREAM = 0x1
    END_HEADERS = 0x4


class TooMuch(Exception):
    """The client is asked to calm down, and its connection ends."""


class FrameWatch:
    def __init__(self, now: float) -> None:
        self._skip = PREFACE  # bytes until the next frame's head
        self._head = b""
        self._block = 0  # bytes of a request's head so far, where more of it must follow
        self._allowed = float(MOST_IDLE)
        self._looked_at = now
        self.begun = False  # whether there has been a frame

    @property
    def pending(self) -> bool:
        """Whether a frame, or a request's head, has begun and not ended."""
        return bool(self._skip or self._head or self._block)

    def look(self, data: bytes, now: float) -> None:
        """Raises TooMuch."""
        self._allowed = min(MOST_IDLE, self._allowed + (now - self._looked_at) * IDLE_PER_SECOND)
        self._looked_at = now
        at, end = 0, len(data)
        while at < end:
            if self._skip:
                step = min(self._skip, end - at)
                self._skip -= step
            else:
                step = min(HEAD - len(self._head), end - at)
                self._head += data[at : at + step]
                if len(self._head) == HEAD:
                    self._weigh(self._head)
                    self._head = b""
            at += step

    def _weigh(self, head: bytes) -> None:
        length, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
        self.begun = True
        self._skip = length
        if length > MOST_FRAME:
            raise TooMuch("a frame is too long")
        if kind in (Kind.HEADERS, Kind.CONTINUATION):
            self._block += length
            if self._block > MOST_HEAD:
                raise TooMuch("a request's head is too long")
            if flags & Flag.END_HEADERS:
                self._block = 0
            else:
                self._block = max(1, self._block)  # it may have begun with nothing
                self.spend()
        elif kind != Kind.DATA or (length == 0 and not flags & Flag.END_STREAM):
            self.spend()

    def spend(self) -> None:
        self._allowed -= 1
        if self._allowed < 0:
            raise TooMuch("too many frames that ask for nothing")

    def earn(self) -> None:
        """We have sent something, for which a client may move its windows."""
        self._allowed = min(MOST_IDLE, self._allowed + 2)
