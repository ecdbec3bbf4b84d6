"""Finds out from its bytes how deeply JSON is nested. Asked for each input, before anything decodes it
(`clean.py`).

A mebibyte can hold half a million brackets, and their sender may mean harm. So there is no loop over them here:
each piece of the JSON takes a few calls that run over its bytes at the speed of C. All bytes but brackets are
deleted, strings too. Of the brackets that are left, eight are packed into one byte, with a 1 for each that opens. A
table knows by how much eight brackets raise the level in all, and how high it gets in between.
"""

from collections.abc import Iterator
from itertools import accumulate
from operator import add

from penstock.doors.steps import PIECE, Steps, pieces

_ALIKE = bytes.maketrans(b"{}", b"[]")
_OTHERS = bytes(set(range(256)) - set(b'[]{}"'))
_BITS = bytes.maketrans(b"[]", b"10")


def _climb(eight: int) -> tuple[int, int]:
    """Returns by how much eight brackets raise the level in all, and how high it gets in between."""
    level = highest = 0
    for bit in range(7, -1, -1):
        level += 1 if eight >> bit & 1 else -1
        highest = max(highest, level)
    return level, highest


_IN_ALL = bytes(_climb(eight)[0] % 256 for eight in range(256))  # to be read as signed bytes
_AT_MOST = bytes(_climb(eight)[1] for eight in range(256))


def is_deeper(payload: bytes, limit: int, size: int = PIECE) -> Steps[bool]:
    """Whether JSON that is known to be well formed is nested more deeply than the limit."""
    level, inside = 0, False
    for piece in pieces(payload, size):
        brackets, inside = _brackets(piece, inside)
        if _highest(brackets, level) > limit:
            return True
        level += 2 * brackets.count(b"[") - len(brackets)
        yield
    return False


def _highest(brackets: bytes, level: int) -> int:
    """Returns the highest level that these brackets reach, beginning at `level`."""
    if not brackets:
        return level
    missing = -len(brackets) % 8  # closing brackets at the end change nothing
    bits = brackets.translate(_BITS) + b"0" * missing
    packed = int(bits, 2).to_bytes(len(bits) // 8, "big")
    levels: Iterator[int] = accumulate(memoryview(packed.translate(_IN_ALL)).cast("b"), initial=level)
    highest: int = max(map(add, levels, packed.translate(_AT_MOST)))
    return highest


def outside_strings(piece: bytes, inside: bool) -> tuple[bytes, bool]:
    """Returns the bytes of a piece outside strings, and whether it ends in the middle of a string. `inside`:
    whether it begins in the middle of one."""
    return _every_other(_without_escaped_quotes(piece), inside)


def _every_other(text: bytes, inside: bool) -> tuple[bytes, bool]:
    parts = text.split(b'"')
    return b"".join(parts[inside::2]), inside ^ (len(parts) % 2 == 0)


def _without_escaped_quotes(piece: bytes) -> bytes:
    if b"\\" not in piece:
        return piece
    # Without escaped backslashes, a backslash before a quote escapes it.
    return piece.replace(b"\\\\", b"").replace(b'\\"', b"")


def _brackets(piece: bytes, inside: bool) -> tuple[bytes, bool]:
    """Returns the brackets of a piece outside strings, in their order."""
    marks = _without_escaped_quotes(piece).translate(_ALIKE, _OTHERS)
    # Two quotes side by side are an empty string, or lie between two strings. Either way, the bytes before and
    # after them are both inside or both outside.
    return _every_other(marks.replace(b'""', b""), inside)
