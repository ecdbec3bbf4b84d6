"""Numbers in a tensor: the datatypes of the Open Inference Protocol, how a tensor travels inside an input, and
what a function gets of it. The doors for that protocol make such inputs (`doors/open_inference/`,
`doors/grpc/inference.py`), and `payload.py` reads them in the function's process. The backend for endpoints of that
protocol uses the datatypes too (`adapters/backends/oip/`).

A tensor in an input is an extension of MessagePack (`payload.of_packed`), with this inside:

    dimensions, 1 byte | letter of the datatype, 1 byte | the shape, 4 bytes each | numbers, little-endian

A function gets an array of numpy, or nested lists where numpy is not installed. This module imports nothing of
Penstock, because it is imported in the processes of user code too.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

CODE = 1  # the number of the extension; clients can send none in MessagePack, so all extensions are ours
BF16 = "g"  # `struct` has no letter for it


class Datatype(NamedTuple):
    """One datatype."""

    letter: str  # the letter that `struct` has for it
    size: int  # bytes of one number
    spelt: bool = True  # whether JSON has numbers of it


DATATYPES: Mapping[str, Datatype] = {
    "BOOL": Datatype("?", 1),
    "UINT8": Datatype("B", 1),
    "UINT16": Datatype("H", 2),
    "UINT32": Datatype("I", 4),
    "UINT64": Datatype("Q", 8),
    "INT8": Datatype("b", 1),
    "INT16": Datatype("h", 2),
    "INT32": Datatype("i", 4),
    "INT64": Datatype("q", 8),
    "FP16": Datatype("e", 2, spelt=False),
    "BF16": Datatype(BF16, 2, spelt=False),
    "FP32": Datatype("f", 4),
    "FP64": Datatype("d", 8),
}
_SIZES = {each.letter: each.size for each in DATATYPES.values()}
_EXTENSION = 0xC9  # begins an extension of MessagePack whose length is written in four bytes
_BEGIN = struct.Struct(">BIb")  # that byte, the length, and the number of the extension


def packed(letter: str, shape: Sequence[int], data: "bytes | memoryview") -> bytes:
    """Returns a tensor in MessagePack. `data`: its numbers, little-endian, row by row."""
    head = struct.pack(f"<BB{len(shape)}I", len(shape), ord(letter), *shape)
    return b"".join((_BEGIN.pack(_EXTENSION, len(head) + len(data), CODE), head, data))


def numbers_of(letter: str, data: "bytes | memoryview") -> list[Any]:
    """Returns the numbers one after the other."""
    count = len(data) // _SIZES[letter]
    if letter != BF16:
        return list(struct.unpack(f"<{count}{letter}", data))
    halves = struct.unpack(f"<{count}H", data)  # the upper half of a number in FP32
    return list(struct.unpack(f"<{count}f", struct.pack(f"<{count}I", *(half << 16 for half in halves))))


def nested(numbers: list[Any], shape: Sequence[int]) -> Any:
    """Returns the numbers in lists of this shape. If the shape has no dimensions, returns the one number. No
    dimension is 0."""
    if not shape:
        return numbers[0]
    for size in reversed(shape[1:]):
        numbers = [numbers[at : at + size] for at in range(0, len(numbers), size)]
    return numbers


def tensor_of(code: int, content: memoryview) -> Any:
    """Returns what a function gets of an extension."""
    if code != CODE:
        raise ValueError(f"the extension {code} of MessagePack is not known")
    dimensions, letter = content[0], chr(content[1])
    begin = 2 + 4 * dimensions
    shape = struct.unpack_from(f"<{dimensions}I", content, 2)
    data = content[begin:]
    try:
        import numpy  # here and not above: only functions that get tensors need it
    except ImportError:
        return nested(numbers_of(letter, data), shape)
    if letter == BF16:  # numpy has no such numbers
        wide = numpy.frombuffer(data, "<u2").astype("<u4") << 16
        return wide.view("<f4").reshape(shape)
    return numpy.frombuffer(data, f"<{letter}").reshape(shape)
