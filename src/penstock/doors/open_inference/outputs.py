"""Makes tensors of the outputs of a call, a row for each. The door for inference asks it when all outputs are there
(`infer.py`). A function does not say what it returns, so the datatype is seen from the outputs:

    texts                           BYTES [n]
    bytes                           BYTES [n]
    numbers, or lists of one shape  BOOL, INT64 or FP64 [n, …]
    lists of texts of one length    BYTES [n, m]
    objects with the same names     one tensor for each name, by these rules
    anything else                   BYTES [n], each element the output as JSON

The only tensor of an answer is called `output`, or as its client asks for it.
"""

import struct
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from penstock.doors.open_inference.tensor import BYTES, MOST_DIMENSIONS
from penstock.output import as_bytes, without_note
from penstock.tensors import DATATYPES

OUTPUT = "output"
INT64 = range(-(2**63), 2**63)

_from_json = msgspec.json.Decoder().decode


class OutputTensor(NamedTuple):
    """One output tensor."""

    name: str
    datatype: str
    shape: Sequence[int]
    values: Sequence[Any]  # one after the other; of BYTES, texts or bytes

    def raw(self) -> bytes:
        """Returns the values in binary."""
        if self.datatype == BYTES:
            elements = [value.encode() if isinstance(value, str) else value for value in self.values]
            return b"".join(chain.from_iterable((len(each).to_bytes(4, "little"), each) for each in elements))
        return struct.pack(f"<{len(self.values)}{DATATYPES[self.datatype].letter}", *self.values)


def tensors_of(outputs: Sequence[bytes]) -> list[OutputTensor]:
    """Returns the tensors of these outputs, as they came from the model."""
    values = [_value(output) for output in outputs]
    first = values[0]
    if (
        type(first) is dict
        and first
        and all(type(each) is dict and each.keys() == first.keys() for each in values)
    ):
        return [_tensor(name, [each[name] for each in values]) for name in first]
    return [_tensor(OUTPUT, values)]


def _value(output: bytes) -> Any:
    octets, _ = as_bytes(output)
    return _from_json(without_note(output)[0]) if octets is None else octets


def _tensor(name: str, values: list[Any]) -> OutputTensor:
    shape, flat = [len(values)], values
    while flat and type(flat[0]) is list and len(shape) < MOST_DIMENSIONS:
        size = len(flat[0])
        if not size or not all(type(each) is list and len(each) == size for each in flat):
            break
        shape.append(size)
        flat = list(chain.from_iterable(flat))
    datatype = _datatype(set(map(type, flat)), flat)
    if datatype:
        return OutputTensor(name, datatype, shape, flat)
    return OutputTensor(name, BYTES, [len(values)], [_as_text(value) for value in values])


def _datatype(kinds: set[type], values: Sequence[Any]) -> str:
    """Returns the datatype of values of these types; empty if they have none in common."""
    if kinds <= {str, bytes}:
        return BYTES
    if kinds == {bool}:
        return "BOOL"
    if kinds == {int} and min(values) in INT64 and max(values) in INT64:
        return "INT64"
    if kinds <= {int, float} and float in kinds and all(abs(value) <= 2**1023 for value in values):
        return "FP64"
    return ""


def _as_text(value: Any) -> str | bytes:
    """Returns a value of no datatype as an element of BYTES."""
    return value if isinstance(value, str | bytes) else msgspec.json.encode(value).decode()
