"""Makes the input tensors of a batch: a column for each tensor that the model takes, with a row for each input.
Both backends for the Open Inference Protocol make their requests of columns (`asking.py`,
`dialects/open_inference.py`).

    the model takes one tensor     each input is a row of it: a text, a number, or nested lists
    the model takes several        each input is an object with a row of each tensor, by the tensor's name

All rows of a column have one shape, since a tensor has. A BYTES tensor takes texts; other values go as JSON.
"""

import struct
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from penstock.errors import BatchRejected
from penstock.tensors import DATATYPES

BYTES = "BYTES"
DEEPEST = 16  # dimensions of a row
_LENGTH = struct.Struct("<I")

_from_json = msgspec.json.Decoder().decode


class Tensor(NamedTuple):
    """An input tensor, as the model describes it."""

    name: str
    datatype: str
    row: tuple[int, ...]  # the shape of one row; -1: any size

    @property
    def is_texts(self) -> bool:
        """Whether a row is one text."""
        return self.datatype == BYTES and self.row in ((), (1,), (-1,))


class Column(NamedTuple):
    """An input tensor with its values: elements of BYTES, or numbers."""

    name: str
    datatype: str
    shape: list[int]
    values: Sequence[Any]

    def raw(self) -> bytes:
        """Returns the values in binary."""
        if self.datatype == BYTES:
            return b"".join(chain.from_iterable((_LENGTH.pack(len(each)), each) for each in self.values))
        try:
            return struct.pack(f"<{len(self.values)}{DATATYPES[self.datatype].letter}", *self.values)
        except (struct.error, OverflowError) as error:
            raise BatchRejected(f"an input does not fit into {self.datatype}", details=str(error)) from None


def columns_of(tensors: Sequence[Tensor], inputs: Sequence[bytes]) -> list[Column]:
    """Returns the columns. Raises BatchRejected if an input has no row for each tensor."""
    values = [_from_json(each) for each in inputs]
    if len(tensors) == 1:
        return [_column(tensors[0], values)]
    names = {tensor.name for tensor in tensors}
    for value in values:
        if type(value) is not dict or value.keys() != names:
            raise BatchRejected(
                f"an input must be an object with {', '.join(sorted(names))}, and nothing else"
            )
    return [_column(tensor, [value[tensor.name] for value in values]) for tensor in tensors]


def _column(tensor: Tensor, values: list[Any]) -> Column:
    if tensor.row in ((1,), (-1,)) and type(values[0]) is not list:
        values = [[value] for value in values]
    shape, flat = [len(values)], values
    while flat and type(flat[0]) is list and len(shape) <= DEEPEST:
        size = len(flat[0])
        if not all(type(each) is list and len(each) == size for each in flat):
            raise BatchRejected(f"the rows of the input {tensor.name!r} have different shapes")
        shape.append(size)
        flat = list(chain.from_iterable(flat))
    fits = len(shape) == len(tensor.row) + 1 and all(
        wanted in (-1, size) for wanted, size in zip(tensor.row, shape[1:], strict=True)
    )
    if not fits:
        raise BatchRejected(
            f"the input {tensor.name!r} has rows of the shape {shape[1:]}: the model takes {list(tensor.row)}"
        )
    return Column(tensor.name, tensor.datatype, shape, _checked(tensor, flat))


def _checked(tensor: Tensor, flat: list[Any]) -> Sequence[Any]:
    if tensor.datatype == BYTES:
        return [each.encode() if isinstance(each, str) else msgspec.json.encode(each) for each in flat]
    kinds: tuple[type, ...] = (int, float)
    if tensor.datatype == "BOOL":
        kinds = (bool,)
    elif not tensor.datatype.startswith("FP"):
        kinds = (int,)
    if not all(isinstance(each, kinds) for each in flat):
        raise BatchRejected(f"a value of the input {tensor.name!r} is not one of {tensor.datatype}")
    return flat


def can_be_sent(tensor: Tensor) -> bool:
    """Returns whether there is a way to write values of the tensor's datatype."""
    return tensor.datatype == BYTES or (tensor.datatype in DATATYPES and tensor.datatype != "BF16")
