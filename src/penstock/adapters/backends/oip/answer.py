"""Reads the response of an Open Inference endpoint. It returns one output for each input, or raises BatchRejected
with the reason. The backend (`backends/grpc.py`) has one reader and gives it every response.

A tensor comes with its values spelled out, or as raw bytes: little-endian numbers one after the other, and each
text after its length. A response that is not exactly right is refused; nothing is filled in, cut off or guessed.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, prod
from typing import Any, Literal

import msgspec
from google.protobuf.message import DecodeError

from penstock.adapters.backends.oip.messages import ModelInferResponse
from penstock.errors import BatchRejected

# For each datatype: the field that spells its values out, and the letter by which `struct` reads one of them.
_NUMBERS = {
    "BOOL": ("bool_contents", "?"),
    "INT8": ("int_contents", "b"),
    "INT16": ("int_contents", "h"),
    "INT32": ("int_contents", "i"),
    "INT64": ("int64_contents", "q"),
    "UINT8": ("uint_contents", "B"),
    "UINT16": ("uint_contents", "H"),
    "UINT32": ("uint_contents", "I"),
    "UINT64": ("uint64_contents", "Q"),
    "FP16": ("", "e"),  # comes raw only
    "FP32": ("fp32_contents", "f"),
    "FP64": ("fp64_contents", "d"),
}
_FLOATS = ("FP16", "FP32", "FP64")
_DEEPEST = 16  # dimensions of a tensor
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class ReadOutputs:
    """What a good response says."""

    outputs: list[bytes]  # JSON
    version: str  # of the model; empty if the endpoint names none


@dataclass(frozen=True, slots=True)
class AnswerReader:
    """Reads the responses of one endpoint. With `output_kind` auto, bytes are read as texts and numbers become
    JSON."""

    tensor_name: str  # of the tensor that holds the outputs; empty: the only one
    output_kind: Literal["auto", "text", "json"]

    def read(self, content: bytes, batch_id: str, expected: int) -> ReadOutputs:
        try:
            response = ModelInferResponse.FromString(content)
        except DecodeError as error:
            raise BatchRejected("endpoint's response is not one of the protocol") from error
        if response.id not in ("", batch_id):
            raise BatchRejected("endpoint's response belongs to another request")
        tensor, raw = self._tensor(response)
        shape = list(tensor.shape)
        if not shape or shape[0] != expected or len(shape) > _DEEPEST:
            raise BatchRejected(
                f"output {tensor.name!r}: expected {expected} outputs, found the shape {shape[:_DEEPEST]}"
            )
        if tensor.datatype == "BYTES":
            pieces = list(tensor.contents.bytes_contents) if raw is None else _pieces(raw, tensor.name)
            if prod(shape) != expected or len(pieces) != expected:
                raise BatchRejected(
                    f"output {tensor.name!r}: expected {expected} outputs,"
                    f" found {len(pieces)} in the shape {shape}"
                )
            outputs = [self._written(piece, tensor.name) for piece in pieces]
        else:
            outputs = self._rows(_numbers(tensor, raw), shape, tensor)
        return ReadOutputs(outputs, response.model_version)

    def _tensor(self, response: Any) -> tuple[Any, bytes | None]:
        """Returns the output tensor, and its raw bytes if its values are not spelled out."""
        tensors, raws = response.outputs, response.raw_output_contents
        wanted_name = self.tensor_name
        found = [i for i, tensor in enumerate(tensors) if not wanted_name or tensor.name == wanted_name]
        if len(found) != 1:
            names = ", ".join(tensor.name for tensor in tensors) or "none"
            wanted = f"expected {wanted_name!r}" if wanted_name else "say which with grpc.output_name"
            raise BatchRejected(f"endpoint's response has these outputs: {names}; {wanted}")
        if raws and len(raws) != len(tensors):
            raise BatchRejected(
                f"endpoint's response has {len(tensors)} outputs, and contents for {len(raws)}"
            )
        return tensors[found[0]], raws[found[0]] if raws else None

    def _written(self, piece: bytes, name: str) -> bytes:
        try:
            text = piece.decode()
            return (
                msgspec.json.encode(text)
                if self.output_kind != "json"
                else bytes(msgspec.json.decode(text, type=msgspec.Raw))
            )
        except UnicodeDecodeError as error:
            raise BatchRejected(f"output {name!r}: expected text in UTF-8: {error.reason}") from None
        except (msgspec.DecodeError, RecursionError):
            raise BatchRejected(f"output {name!r}: expected JSON, since the model's output is json") from None

    def _rows(self, numbers: Sequence[Any], shape: list[int], tensor: Any) -> list[bytes]:
        if self.output_kind == "text":
            raise BatchRejected(
                f'output {tensor.name!r}: expected texts, found {tensor.datatype}; numbers need output = "auto"'
            )
        if min(shape) < 1 or prod(shape) != len(numbers):
            raise BatchRejected(
                f"output {tensor.name!r}: {len(numbers)} values do not fill the shape {shape}"
            )
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


def _numbers(tensor: Any, raw: bytes | None) -> Sequence[Any]:
    field, letter = _NUMBERS.get(tensor.datatype, ("", ""))
    if not letter or (raw is None and not field):
        raise BatchRejected(
            f"output {tensor.name!r}: {tensor.datatype[:20]!r} is not a datatype that can be read"
        )
    if raw is None:
        return list(getattr(tensor.contents, field))
    count, rest = divmod(len(raw), struct.calcsize(f"<{letter}"))
    if rest:
        raise BatchRejected(f"output {tensor.name!r}: its raw contents end in the middle of a value")
    return struct.unpack(f"<{count}{letter}", raw)


def _all_finite(numbers: Sequence[float]) -> bool:
    """Whether all are finite. If their sum is finite, they are, and a sum is quickly made. Otherwise each number is
    looked at, because a sum may overflow."""
    return isfinite(sum(numbers)) or all(map(isfinite, numbers))
