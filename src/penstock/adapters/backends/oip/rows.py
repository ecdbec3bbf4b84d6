"""Makes outputs of the output tensors of an answer: one for each input. Both backends for the Open Inference
Protocol read their answers with it (`answer.py`, `dialects/open_inference.py`).

A tensor comes with its values spelled out, or as raw bytes: little-endian numbers one after the other, and each
text after its length. What is not exactly right is refused; nothing is filled in, cut off or guessed.
"""

import struct
from collections.abc import Sequence
from math import isfinite, prod
from typing import Any, Literal, NamedTuple

import msgspec

from penstock.adapters.backends.oip.columns import BYTES
from penstock.errors import BatchRejected

LETTERS = {
    "BOOL": "?", "INT8": "b", "INT16": "h", "INT32": "i", "INT64": "q", "UINT8": "B", "UINT16": "H", "UINT32": "I",
    "UINT64": "Q", "FP16": "e", "FP32": "f", "FP64": "d",
}  # fmt: skip
DEEPEST = 16  # dimensions of a tensor
_FLOATS = ("FP16", "FP32", "FP64")
_LENGTH = struct.Struct("<I")

OutputKind = Literal["auto", "text", "json"]


class Given(NamedTuple):
    """An output tensor as it came. Either `values` or `raw` is set."""

    name: str
    datatype: str
    shape: list[int]
    values: Sequence[Any] | None  # elements of BYTES as bytes; numbers
    raw: bytes | None


def outputs_of(
    tensors: Sequence[Given], wanted: str, expected: int, kind: OutputKind, *, several: bool
) -> list[bytes]:
    """Returns the outputs, as JSON. `wanted`: the tensor that holds them; empty: the only one. `several`: whether
    an answer may hold several tensors, each output being an object with a row of each. With `kind` auto, bytes are
    texts. Raises BatchRejected."""
    if several and not wanted and len(tensors) > 1:
        columns = {tensor.name: _outputs(tensor, expected, kind) for tensor in tensors}
        if len(columns) < len(tensors):
            raise BatchRejected("endpoint's response has two outputs of one name")
        return [
            msgspec.json.encode({name: msgspec.Raw(rows[index]) for name, rows in columns.items()})
            for index in range(expected)
        ]
    found = [tensor for tensor in tensors if not wanted or tensor.name == wanted]
    if len(found) != 1:
        names = ", ".join(tensor.name for tensor in tensors) or "none"
        hint = f"expected {wanted!r}" if wanted else "say which with grpc.output_name"
        raise BatchRejected(f"endpoint's response has these outputs: {names}; {hint}")
    return _outputs(found[0], expected, kind)


def _outputs(tensor: Given, expected: int, kind: OutputKind) -> list[bytes]:
    shape = tensor.shape
    if not shape or shape[0] != expected or len(shape) > DEEPEST:
        raise BatchRejected(
            f"output {tensor.name!r}: expected {expected} outputs, found the shape {shape[:DEEPEST]}"
        )
    if tensor.datatype != BYTES:
        return _rows(_numbers(tensor), tensor, kind)
    pieces = _pieces(tensor.raw or b"", tensor.name) if tensor.values is None else list(tensor.values)
    if prod(shape) != expected or len(pieces) != expected:
        raise BatchRejected(
            f"output {tensor.name!r}: expected {expected} outputs, found {len(pieces)} in the shape {shape}"
        )
    return [_written(piece, tensor.name, kind) for piece in pieces]


def _written(piece: bytes, name: str, kind: OutputKind) -> bytes:
    try:
        text = piece.decode()
        if kind != "json":
            return msgspec.json.encode(text)
        return bytes(msgspec.json.decode(text, type=msgspec.Raw))
    except UnicodeDecodeError as error:
        raise BatchRejected(f"output {name!r}: expected text in UTF-8: {error.reason}") from None
    except (msgspec.DecodeError, RecursionError):
        raise BatchRejected(f"output {name!r}: expected JSON, since the model's output is json") from None


def _rows(numbers: Sequence[Any], tensor: Given, kind: OutputKind) -> list[bytes]:
    shape = tensor.shape
    if kind == "text":
        raise BatchRejected(
            f'output {tensor.name!r}: expected texts, found {tensor.datatype}; numbers need output = "auto"'
        )
    if min(shape) < 1 or prod(shape) != len(numbers):
        raise BatchRejected(f"output {tensor.name!r}: {len(numbers)} values do not fill the shape {shape}")
    if tensor.datatype in _FLOATS and not _all_finite(numbers):
        raise BatchRejected(
            f"output {tensor.name!r}: a value is infinite or not a number, which JSON cannot say"
        )
    for size in reversed(shape[1:]):
        numbers = [numbers[i : i + size] for i in range(0, len(numbers), size)]
    return [msgspec.json.encode(row) for row in numbers]


def _pieces(raw: bytes, name: str) -> list[bytes]:
    pieces, at = [], 0
    while at < len(raw):
        start = at + _LENGTH.size
        end = start + _LENGTH.unpack_from(raw, at)[0] if start <= len(raw) else len(raw) + 1
        if end > len(raw):
            raise BatchRejected(f"output {name!r}: its raw contents end in the middle of a text")
        pieces.append(raw[start:end])
        at = end
    return pieces


def _numbers(tensor: Given) -> Sequence[Any]:
    letter = LETTERS.get(tensor.datatype, "")
    if not letter or (tensor.values is None and tensor.raw is None):
        raise BatchRejected(
            f"output {tensor.name!r}: {tensor.datatype[:20]!r} is not a datatype that can be read"
        )
    if tensor.raw is None:
        return tensor.values or []
    count, rest = divmod(len(tensor.raw), struct.calcsize(f"<{letter}"))
    if rest:
        raise BatchRejected(f"output {tensor.name!r}: its raw contents end in the middle of a value")
    return struct.unpack(f"<{count}{letter}", tensor.raw)


def _all_finite(numbers: Sequence[float]) -> bool:
    """Returns whether all are finite. If their sum is finite, they are, and a sum is quickly made. Otherwise each
    number is looked at, because a sum may overflow."""
    try:
        return isfinite(sum(numbers)) or all(map(isfinite, numbers))
    except OverflowError:  # whole numbers that no float can hold
        return False
