"""Reads the tensors of a request: checks the shape, and makes plain bytes of the values, however they were sent.
The door for inference calls it for each tensor (`infer.py`), and so does the one over gRPC
(`doors/grpc/inference.py`).

    "data": [1, 2, 3, 4]  or  [[1, 2], [3, 4]]      values spelled out, flat or in rows
    behind the JSON, "binary_data_size": 16         numbers, little-endian, one after the other
                                                    BYTES: each element after its length, in four bytes

Values may be a mebibyte, so the work goes in steps (`steps.py`).
"""

from collections.abc import Sequence
from itertools import chain
from math import prod
from typing import Any, NamedTuple

import msgspec

from penstock.doors.open_inference import numbers
from penstock.doors.open_inference.numbers import unfilled
from penstock.doors.steps import Steps
from penstock.errors import Unacceptable
from penstock.tensors import DATATYPES

BYTES = "BYTES"
MOST_DIMENSIONS = 16
LARGEST_DIMENSION = 2**31 - 1
MOST_ELEMENTS = 100_000  # of a tensor of BYTES: to make objects of them takes some ten milliseconds
AT_ONCE = 4096  # elements that are read in one step
_LENGTH = 4  # bytes before each element

_values = msgspec.json.Decoder(list[Any]).decode


class Tensor(NamedTuple):
    """One input tensor."""

    name: str
    datatype: str
    shape: Sequence[int]
    data: "bytes | memoryview | Sequence[bytes]"  # numbers, little-endian; of BYTES, the elements


def check(name: str, datatype: str, shape: Sequence[int]) -> None:
    """Refuse a tensor by what is said of it. The first dimension, the rows, may be 0."""
    if datatype != BYTES and datatype not in DATATYPES:
        known = ", ".join((BYTES, *DATATYPES))
        raise Unacceptable(f"the input {_shown(name)} has the datatype {_shown(datatype)}; known are {known}")
    if not 0 < len(shape) <= MOST_DIMENSIONS or not all(0 <= size <= LARGEST_DIMENSION for size in shape):
        raise Unacceptable(
            f"the shape of the input {_shown(name)} must be a list of 1 to {MOST_DIMENSIONS} sizes, the first of"
            " which is the number of rows"
        )
    if not all(shape[1:]):
        raise Unacceptable(f"the shape of the input {_shown(name)} has a 0 in it: its rows would be empty")


def spelt_out(name: str, datatype: str, shape: Sequence[int], said: bytes) -> Steps[Tensor]:
    """Reads values that are spelled out. `said`: JSON."""
    if datatype != BYTES:
        if not DATATYPES[datatype].spelt:
            raise Unacceptable(f"the input {_shown(name)} is {datatype}, which can be sent in binary only")
        return Tensor(name, datatype, shape, (yield from numbers.spelt_out(name, datatype, shape, said)))
    check_number(name, prod(shape))
    try:
        values = _values(said)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise Unacceptable(f"'data' of the input {_shown(name)} must be a list of values") from None
    yield
    values = yield from _flat(name, values, shape)
    if len(values) != prod(shape):
        raise unfilled(name, shape, len(values))
    elements = []
    for at in range(0, len(values), AT_ONCE):
        some = values[at : at + AT_ONCE]
        if not set(map(type, some)) <= {str}:
            raise Unacceptable(f"the values of the input {_shown(name)} must be strings: it is {BYTES}")
        elements += [value.encode() for value in some]
        yield
    return Tensor(name, datatype, shape, elements)


def _flat(name: str, values: list[Any], shape: Sequence[int]) -> Steps[list[Any]]:
    """Returns the values one after the other."""
    if not values or type(values[0]) is not list:
        return values
    as_shaped = len(values) == shape[0]
    for size in shape[1:]:
        if not as_shaped or not all(type(row) is list and len(row) == size for row in values):
            raise Unacceptable(f"the rows of the input {_shown(name)} are not as its shape says")
        values = list(chain.from_iterable(values))
        yield
    return values


def binary(name: str, datatype: str, shape: Sequence[int], data: memoryview) -> Steps[Tensor]:
    """Reads values that were sent in binary."""
    if datatype == BYTES:
        elements = yield from _elements(name, data)
        if len(elements) != prod(shape):
            raise unfilled(name, shape, len(elements))
        return Tensor(name, datatype, shape, elements)
    count, rest = divmod(len(data), DATATYPES[datatype].size)
    if rest or count != prod(shape):
        raise Unacceptable(
            f"the input {_shown(name)} has {len(data)} bytes, which do not fill its shape {_listed(shape)} with"
            f" {datatype}"
        )
    if datatype == "BOOL" and bytes(data).strip(b"\0\1"):
        raise Unacceptable(f"a value of the input {_shown(name)} is neither 0 nor 1, and it is BOOL")
    return Tensor(name, datatype, shape, data)


def _elements(name: str, data: memoryview) -> Steps[list[bytes]]:
    elements, at, end = list[bytes](), 0, len(data)
    while at < end:
        begin = at + _LENGTH
        at = begin + int.from_bytes(data[at:begin], "little")
        if at > end or begin > end:
            raise Unacceptable(f"the bytes of the input {_shown(name)} end in the middle of an element")
        elements.append(bytes(data[begin:at]))
        if not len(elements) % AT_ONCE:
            check_number(name, len(elements))
            yield
    return elements


def check_number(name: str, elements: int) -> None:
    if elements > MOST_ELEMENTS:
        raise Unacceptable(f"the input {_shown(name)} has more than {MOST_ELEMENTS} elements of {BYTES}")


def _shown(text: str) -> str:
    return repr(text[:50])


def _listed(shape: Sequence[int]) -> str:
    return str(list(shape))
