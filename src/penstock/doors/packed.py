"""Checks a value in MessagePack before it is decoded: its depth, its parts, its numbers. Bodies in MessagePack go
through it (`binary.py`).

Decoding makes an object of each part, and a mebibyte can have a million parts. So the bytes are walked through
first, in steps, and a value with too many parts is refused. A value without bytes in it goes on as JSON, so that it
is treated as if it had come as JSON, and may get the same answer from the cache. The decoder of the body has
checked that the value is well formed.
"""

import re
from math import isfinite
from struct import Struct

import msgspec

from penstock import payload
from penstock.doors.steps import Steps
from penstock.errors import Unacceptable

MOST_PARTS = 100_000  # of one value: to make objects of them takes some ten milliseconds
AT_ONCE = 4096  # parts that are walked through in one step

FIX_MAP, FIX_ARRAY, FIX_TEXT, NIL, NEGATIVE = 0x80, 0x90, 0xA0, 0xC0, 0xE0
BINARY = (0xC4, 0xC5, 0xC6)  # with a length of 1, 2 or 4 bytes
TEXT = (0xD9, 0xDA, 0xDB)
ARRAY = (0xDC, 0xDD)  # with a length of 2 or 4 bytes
MAP = (0xDE, 0xDF)
# How many bytes follow the first one, of nil, booleans and numbers.
SCALARS = {
    0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4,
    0xD3: 8,
}  # fmt: skip
FLOATS = {0xCA: Struct(">f").unpack_from, 0xCB: Struct(">d").unpack_from}

_CONTROLS = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]")

decode = msgspec.msgpack.Decoder().decode


class Walk:
    """A walk through one value. `has_bytes` and `has_controls` are known at its end."""

    def __init__(self, packed: bytes, max_depth: int, field: str, *, reads_texts: bool = False) -> None:
        """`reads_texts`: control characters are looked for."""
        self.has_bytes = self.has_controls = False
        self._reads_texts = reads_texts
        self._packed = packed
        self._at = 0
        self._max_depth = max_depth
        self._field = field

    def steps(self) -> Steps[None]:
        left, parts = [1], 0  # parts that are left, in each array and map that the walk is in
        is_map = [False]
        while left:
            if not left[-1]:
                left.pop()
                is_map.pop()
                continue
            is_key = is_map[-1] and left[-1] % 2 == 0
            left[-1] -= 1
            parts += 1
            if parts > MOST_PARTS:
                raise Unacceptable(
                    f"{self._field!r} has more than {MOST_PARTS} parts in MessagePack: send large arrays as bytes"
                )
            if not parts % AT_ONCE:
                yield
            inside = self._part(is_key)
            if inside is not None:
                if len(left) > self._max_depth:
                    raise Unacceptable(f"{self._field!r} is nested deeper than {self._max_depth} levels")
                left.append(inside[0])
                is_map.append(inside[1])

    def _part(self, is_key: bool) -> tuple[int, bool] | None:
        """Walk through one part. Returns, for an array or a map, how many parts it has and whether it is a map."""
        packed, first = self._packed, self._packed[self._at]
        self._at += 1
        is_text = FIX_TEXT <= first < NIL or first in TEXT
        if is_key and not is_text:
            raise Unacceptable(f"a key of a map in {self._field!r} is not a string")
        if is_text:
            size = first - FIX_TEXT if first < NIL else self._length(1 << (first - TEXT[0]))
            end = self._at + size
            if self._reads_texts and not self.has_controls:
                self.has_controls = _CONTROLS.search(packed, self._at, end) is not None
            self._at = end
        elif first < FIX_MAP or first >= NEGATIVE:
            pass  # a small number
        elif first in SCALARS:
            if first in FLOATS and not isfinite(FLOATS[first](packed, self._at)[0]):
                raise Unacceptable(f"{self._field!r} holds a number that is not finite")
            self._at += SCALARS[first]
        elif first in BINARY:
            self.has_bytes = True
            size = self._length(1 << (first - BINARY[0]))
            self._at += size
        elif first < FIX_TEXT:
            return (first - FIX_ARRAY, False) if first >= FIX_ARRAY else (2 * (first - FIX_MAP), True)
        elif first in ARRAY:
            return self._length(2 << (first - ARRAY[0])), False
        elif first in MAP:
            return 2 * self._length(2 << (first - MAP[0])), True
        else:
            raise Unacceptable(
                f"{self._field!r} holds a type of MessagePack's extensions: none is understood"
            )
        return None

    def _length(self, size: int) -> int:
        begin, self._at = self._at, self._at + size
        return int.from_bytes(self._packed[begin : self._at], "big")


def input_of(packed: bytes, max_depth: int, controls: str) -> Steps[bytes]:
    """Returns the payload of an input: as JSON if it has no bytes in it. `controls`: the rule for control
    characters. They are looked for here only if the payload is not JSON."""
    walk = Walk(packed, max_depth, "input")
    yield from walk.steps()
    if not walk.has_bytes:
        return msgspec.json.encode(decode(packed))
    if packed[0] in BINARY:
        return payload.of_bytes(decode(packed))
    if controls != "allow":  # nothing is stripped from what is not JSON
        walk = Walk(packed, max_depth, "input", reads_texts=True)
        yield from walk.steps()
        if walk.has_controls:
            raise Unacceptable(
                "'input' holds a control character in a string: remove it; limits.control_characters can let the"
                " server allow them"
            )
    return payload.of_packed(packed)


def parameters_of(packed: bytes, max_depth: int) -> Steps[bytes]:
    """Returns parameters as JSON. Refuses them if they hold bytes."""
    walk = Walk(packed, max_depth, "parameters")
    yield from walk.steps()
    if walk.has_bytes:
        raise Unacceptable("'parameters' hold bytes, and can be JSON only")
    return msgspec.json.encode(decode(packed))
