"""Work on a large body, in steps: between two steps the event loop can do other things. The checks of inputs are
written so (`clean.py`, `depth.py`, `inputs.py`), and so are doors that read large bodies; `large.py` runs the
steps.

A check is a generator. It looks at one piece of a payload, stops at a `yield`, and goes on with the next piece. For
a small payload, which is one piece, `at_once` runs it to its end.
"""

import re
from collections.abc import Generator, Iterator
from typing import TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]

PIECE = 64 * 1024  # bytes that one step looks at
LONGEST_ESCAPE = 6  # bytes, as \u0001 has

_WHOLE = re.compile(rb"(?:[^\\]|\\u[^\\]{4}|\\[^u])*")
_LEADS_TO_C1 = 0xC2  # the first byte of a C1 control character in UTF-8


def at_once(steps: Steps[T]) -> T:
    try:
        while True:
            next(steps)
    except StopIteration as end:
        result: T = end.value
        return result


def pieces(payload: bytes, size: int = PIECE) -> Iterator[bytes]:
    """Yields the pieces of well-formed JSON. No escape is cut in two, nor a control character of two bytes."""
    start, last = 0, len(payload) - size
    while start < last:
        piece = payload[start : start + size]
        piece = piece[: _whole(piece)]
        yield piece
        start += len(piece)
    yield payload[start:]


def _whole(piece: bytes) -> int:
    """Returns how many bytes of a piece can be taken without cutting anything in two. The piece must not begin in
    the middle of something."""
    end = len(piece)
    begin = piece.find(b"\\", end - LONGEST_ESCAPE + 1)
    if begin >= 0:
        before = piece[:begin]
        if (begin - len(before.rstrip(b"\\"))) % 2:
            begin += 1  # this backslash is escaped by the one before
        whole = _WHOLE.match(piece, begin)
        assert whole is not None  # the pattern can match nothing
        end = whole.end()
    return end - 1 if piece[end - 1] == _LEADS_TO_C1 else end
