"""How deeply JSON is nested, told from its bytes.

A mebibyte can hold half a million brackets, and whoever sends them may mean harm. So there is no loop over them
here: each step is one call that runs over all bytes at the speed of C. What is not a bracket is deleted, strings
too. Of the brackets that are left, eight are packed into one byte, with a 1 for each that opens. A table knows how
far eight brackets climb in all, and how high they get in between.
"""

from collections.abc import Iterator
from itertools import accumulate
from operator import add

_ALIKE = bytes.maketrans(b"{}", b"[]")
_OTHERS = bytes(set(range(256)) - set(b'[]{}"'))
_BITS = bytes.maketrans(b"[]", b"10")


def _climb(eight: int) -> tuple[int, int]:
    """In all, and at most."""
    level = highest = 0
    for bit in range(7, -1, -1):
        level += 1 if eight >> bit & 1 else -1
        highest = max(highest, level)
    return level, highest


_IN_ALL = bytes(_climb(eight)[0] % 256 for eight in range(256))  # to be read as signed
_AT_MOST = bytes(_climb(eight)[1] for eight in range(256))


def depth(payload: bytes) -> int:
    """Of JSON that is known to be well formed."""
    brackets = _brackets(payload)
    if not brackets:
        return 0
    missing = -len(brackets) % 8  # closing ones at the end change nothing
    bits = brackets.translate(_BITS) + b"0" * missing
    packed = int(bits, 2).to_bytes(len(bits) // 8, "big")
    levels: Iterator[int] = accumulate(memoryview(packed.translate(_IN_ALL)).cast("b"), initial=0)
    deepest: int = max(map(add, levels, packed.translate(_AT_MOST)))
    return deepest


def outside_strings(payload: bytes) -> bytes:
    return b"".join(_without_escaped_quotes(payload).split(b'"')[::2])


def _without_escaped_quotes(payload: bytes) -> bytes:
    if b"\\" not in payload:
        return payload
    # Without escaped backslashes, a backslash before a quote escapes it.
    return payload.replace(b"\\\\", b"").replace(b'\\"', b"")


def _brackets(payload: bytes) -> bytes:
    """Those outside strings, in their order."""
    marks = _without_escaped_quotes(payload).translate(_ALIKE, _OTHERS)
    if b'"' not in marks:
        return marks
    # Two quotes side by side are an empty string, or part two strings: without them, what was inside still is.
    return b"".join(marks.replace(b'""', b"").split(b'"')[::2])
