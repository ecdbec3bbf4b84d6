"""Makes the protocol's request from a batch, over gRPC: one BYTES tensor that holds every input; or, if the model
takes something else and clients may send JSON, each tensor that the model takes. The backend (`backends/grpc.py`)
has a request made of each batch, and sends it. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from google.protobuf.message import DecodeError

from penstock.adapters.backends.oip.columns import Tensor, can_be_sent, columns_of
from penstock.adapters.backends.oip.messages import ModelInferRequest, ModelMetadataResponse
from penstock.errors import BackendUnavailable, BatchRejected

INT64 = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class InputTensor:
    """The one tensor that the model takes."""

    name: str
    column: bool = False  # whether its shape is [n, 1] instead of [n]

    def shape(self, count: int) -> list[int]:
        """Returns the shape for so many inputs."""
        return [count, 1] if self.column else [count]


def described_tensors(description: bytes) -> list[Tensor] | None:
    """Returns all input tensors, if the model takes something else than one text with each input; otherwise
    None."""
    tensors = [
        Tensor(tensor.name, tensor.datatype, tuple(tensor.shape)[1:]) for tensor in _described(description)
    ]
    if not tensors or (len(tensors) == 1 and tensors[0].is_texts):
        return None
    for tensor in tensors:
        if not can_be_sent(tensor):
            raise BackendUnavailable(
                f"the model's input {tensor.name!r} is {tensor.datatype}, which cannot be sent"
            )
    return tensors


def _described(description: bytes) -> list[Any]:
    try:
        return list(ModelMetadataResponse.FromString(description).inputs)
    except DecodeError:
        raise BackendUnavailable(
            "the model's description cannot be read: set grpc.input_name and shape"
        ) from None


def described_input(description: bytes, wanted: str) -> InputTensor:
    """Returns the input tensor as the model describes it. `wanted`: its name; empty if the model has only one."""
    tensors = _described(description)
    if wanted and not tensors:
        return InputTensor(wanted)  # some servers describe nothing
    found = [tensor for tensor in tensors if tensor.name == wanted] if wanted else tensors
    if len(found) != 1:
        names = ", ".join(tensor.name for tensor in tensors) or "none"
        hint = f"it has no {wanted!r}" if wanted else "say which with grpc.input_name"
        raise BackendUnavailable(f"the model describes these inputs: {names}; {hint}")
    tensor = found[0]
    sizes = list(tensor.shape)
    if (
        tensor.datatype != "BYTES"
        or len(sizes) not in (1, 2)
        or (len(sizes) == 2 and sizes[1] not in (1, -1))
    ):
        raise BackendUnavailable(
            f"the model's input {tensor.name!r} is {tensor.datatype} {sizes}: it must be BYTES, one a request"
        )
    return InputTensor(tensor.name, column=len(sizes) == 2)


@dataclass(frozen=True, slots=True)
class Asking:
    """What every request to one model has in common."""

    model: str
    version: str  # empty: the server's choice
    output: str  # the tensor to ask for; empty: whatever the model gives
    text: bool  # inputs are texts; otherwise each goes as JSON

    def request(
        self, tensor: InputTensor | Sequence[Tensor], inputs: list[bytes], parameters: bytes, batch_id: str
    ) -> bytes:
        """Returns the request for a batch, as bytes. `tensor`: what the model takes. Raises BatchRejected."""
        message = ModelInferRequest(model_name=self.model, model_version=self.version, id=batch_id)
        if isinstance(tensor, InputTensor):
            sent = message.inputs.add(name=tensor.name, datatype="BYTES", shape=tensor.shape(len(inputs)))
            sent.contents.bytes_contents.extend(texts(inputs) if self.text else inputs)
        else:
            for column in columns_of(tensor, inputs):
                message.inputs.add(name=column.name, datatype=column.datatype, shape=column.shape)
                message.raw_input_contents.append(column.raw())
        if self.output:
            message.outputs.add(name=self.output)
        set_parameters(message.parameters, parameters)
        serialized: bytes = message.SerializeToString()
        return serialized


def texts(inputs: Iterable[bytes]) -> list[bytes]:
    """Returns the texts of inputs that are JSON strings. Raises BatchRejected if one is not."""
    try:
        return [msgspec.json.decode(text, type=str).encode() for text in inputs]
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BatchRejected("an input is not a text", details=str(error)) from None


def set_parameters(into: Any, parameters: bytes) -> None:
    """Writes the parameters into a request. Raises BatchRejected for a value that the protocol cannot carry."""
    for name, value in msgspec.json.decode(parameters or b"{}", type=dict[str, Any]).items():
        match value:
            case bool():
                into[name].bool_param = value
            case int() if value in INT64:
                into[name].int64_param = value
            case float():
                into[name].double_param = value
            case str():
                into[name].string_param = value
            case _:
                raise BatchRejected(
                    "a parameter cannot be sent: this model takes texts, numbers, true and false",
                    details=f"it is {name!r}",
                )
