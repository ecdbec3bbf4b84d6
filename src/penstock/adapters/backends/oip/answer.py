"""Reads the response of an Open Inference endpoint over gRPC. It returns one output for each input, or raises
BatchRejected with the reason. The backend (`backends/grpc.py`) has one reader and gives it every response."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError

from penstock.adapters.backends.oip.columns import BYTES
from penstock.adapters.backends.oip.messages import ModelInferResponse
from penstock.adapters.backends.oip.rows import Given, OutputKind, outputs_of
from penstock.errors import BatchRejected

# For each datatype, the field that spells its values out. FP16 comes raw only.
_FIELDS = {
    BYTES: "bytes_contents", "BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents",
    "INT32": "int_contents", "INT64": "int64_contents", "UINT8": "uint_contents", "UINT16": "uint_contents",
    "UINT32": "uint_contents", "UINT64": "uint64_contents", "FP32": "fp32_contents", "FP64": "fp64_contents",
}  # fmt: skip


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
    output_kind: OutputKind
    several: bool = False  # whether the outputs of several tensors become objects

    def read(self, content: bytes, batch_id: str, expected: int) -> ReadOutputs:
        """Returns what a response says. `expected`: how many inputs the batch has. Raises BatchRejected."""
        try:
            response = ModelInferResponse.FromString(content)
        except DecodeError as error:
            raise BatchRejected("endpoint's response is not one of the protocol") from error
        if response.id not in ("", batch_id):
            raise BatchRejected("endpoint's response belongs to another request")
        tensors, raws = response.outputs, response.raw_output_contents
        if raws and len(raws) != len(tensors):
            raise BatchRejected(
                f"endpoint's response has {len(tensors)} outputs, and contents for {len(raws)}"
            )
        given = [_given(tensor, raws[index] if raws else None) for index, tensor in enumerate(tensors)]
        outputs = outputs_of(given, self.tensor_name, expected, self.output_kind, several=self.several)
        return ReadOutputs(outputs, response.model_version)


def _given(tensor: Any, raw: bytes | None) -> Given:
    field = _FIELDS.get(tensor.datatype, "")
    values: Sequence[Any] | None = list(getattr(tensor.contents, field)) if raw is None and field else None
    return Given(tensor.name, tensor.datatype, list(tensor.shape), values, raw)
