"""Numbers of a tensor, from JSON and to JSON, in steps: a mebibyte of them takes a tenth of a second, and more in
lists of lists. `tensor.py` reads what is spelled out, and `rows.py` writes rows for models that take JSON."""

import sys
from array import array
from collections.abc import Iterator, Sequence
from math import isfinite, prod
from typing import Any

import msgspec

from penstock.doors.steps import Steps
from penstock.errors import Unacceptable
from penstock.tensors import DATATYPES, nested, numbers_of

AT_ONCE = 4096  # numbers that are read or written in one step
PIECE = 16 * 1024  # bytes of spelled-out numbers that are read in one step
# What numbers, true and false are written with, and the space between them: what is left is the structure.
_VALUES = b"0123456789+-.eEtrufals \t\n\r"
_BRACKETS = b"[]"

_values = msgspec.json.Decoder(list[Any]).decode


# ---- to JSON -----------------------------------------------------------------------------------------------


def as_json(letter: str, shape: Sequence[int], data: "bytes | memoryview") -> Steps[bytes]:
    """Returns numbers as JSON: lists of this shape, or without a shape the one number. Raises ValueError if JSON
    cannot say one of them."""
    count = prod(shape)
    if count <= AT_ONCE:
        return _written(letter, shape, data)
    first, rest = shape[0], shape[1:]
    inner, size = count // first, len(data) // first
    parts = []
    if inner > AT_ONCE:
        for at in range(first):
            part = yield from as_json(letter, rest, data[at * size : (at + 1) * size])
            parts.append(part)
    else:
        group = AT_ONCE // inner
        for at in range(0, first, group):
            several = min(group, first - at)
            part = _written(letter, (several, *rest), data[at * size : (at + several) * size])
            parts.append(part[1:-1])
            yield
    return b"[" + b",".join(parts) + b"]"


def _written(letter: str, shape: Sequence[int], data: "bytes | memoryview") -> bytes:
    numbers = numbers_of(letter, data)
    if not all(map(isfinite, numbers)):
        raise ValueError
    return msgspec.json.encode(nested(numbers, shape))


# ---- from JSON ---------------------------------------------------------------------------------------------


def spelt_out(name: str, datatype: str, shape: Sequence[int], said: bytes) -> Steps[bytes]:
    """Returns numbers that are spelled out, little-endian and one after the other. `said`: well-formed JSON."""
    structure = said.translate(None, _VALUES)
    yield
    count = prod(shape)
    if not (_is(structure, (count,)) or _is(structure, shape)):
        raise _irregular(name, datatype, shape, structure)
    yield
    numbers = bytearray()
    for piece in _pieces(said.translate(None, _BRACKETS)):
        try:
            values = _values(b"[" + piece + b"]")
        except msgspec.MsgspecError:
            raise no_number(name, datatype) from None
        numbers += as_bytes(name, datatype, values)
        yield
    found = len(numbers) // DATATYPES[datatype].size
    if found != count:
        raise unfilled(name, shape, found)
    return bytes(numbers)


def _is(structure: bytes, shape: Sequence[int]) -> bool:
    """Whether a structure is the one of lists of this shape."""
    length = 0
    for size in reversed(shape):
        length = 2 + size * length + size - 1 if size else 2
    if length != len(structure):  # what a shape says may be too large to be made
        return False
    expected = b""
    for size in reversed(shape):
        expected = b"[" + (expected + b",") * (size - 1) + expected + b"]" if size else b"[]"
    return structure == expected


def _irregular(name: str, datatype: str, shape: Sequence[int], structure: bytes) -> Unacceptable:
    if not structure.startswith(b"["):
        return Unacceptable(f"'data' of the input {name[:50]!r} must be a list of values")
    if structure.strip(b"[],"):
        return no_number(name, datatype)
    if b"[" in structure[1:]:
        return Unacceptable(f"the rows of the input {name[:50]!r} are not as its shape says")
    return unfilled(name, shape, len(structure) - 1)  # there is a comma less than values


def _pieces(flat: bytes) -> Iterator[bytes]:
    """Yields a list without its brackets, cut at commas."""
    start, end = 0, len(flat)
    while start < end:
        stop = flat.find(b",", start + PIECE)
        yield flat[start : end if stop < 0 else stop]
        start = end if stop < 0 else stop + 1


def as_bytes(name: str, datatype: str, values: Sequence[Any]) -> bytes:
    """Returns values, little-endian and one after the other. Refuses those that the datatype does not have."""
    known = DATATYPES[datatype]
    fits = {bool} if datatype == "BOOL" else {int, float} if datatype.startswith("FP") else {int}
    if not set(map(type, values)) <= fits:
        raise no_number(name, datatype)
    if datatype == "BOOL":
        return bytes(values)
    try:
        numbers = array(known.letter, values)
    except OverflowError:
        raise too_large(name, datatype) from None
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def no_number(name: str, datatype: str) -> Unacceptable:
    return Unacceptable(f"a value of the input {name[:50]!r} is no {datatype}")


def too_large(name: str, datatype: str) -> Unacceptable:
    return Unacceptable(f"a value of the input {name[:50]!r} is too large for {datatype}")


def unfilled(name: str, shape: Sequence[int], count: int) -> Unacceptable:
    return Unacceptable(
        f"the input {name[:50]!r} has {count} values, which do not fill its shape {list(shape)}"
    )
