"""The doors `/v2/models/{model}/infer` and `/v2/models/{model}/versions/{version}/infer`, as the Open Inference
Protocol has them, so that clients of Triton and KServe work unchanged. The data plane calls them, as every
door.

    {"inputs": [{"name": "text", "shape": [2], "datatype": "BYTES", "data": ["one", "two"]}]}
    ──►  {"model_name": "m", …, "outputs": [{"name": "output", "shape": [2], "datatype": "BYTES", "data": […]}]}

Each row is a request of its own. With `Inference-Header-Content-Length`, so many bytes of the body are JSON,
and the values of tensors follow; Triton's client sends them so by itself, and asks for such an answer.
"""

from collections.abc import Sequence
from functools import partial

import msgspec

from penstock.doors.door import AskingDoor, Call, Letter
from penstock.doors.inputs import check_unicode, decode, inputs_of
from penstock.doors.large import LARGE
from penstock.doors.open_inference import tensor
from penstock.doors.open_inference.answer import Wanted, answer_to
from penstock.doors.open_inference.described import describe
from penstock.doors.open_inference.request import (
    MOST_ROWS,
    SMALL,
    InferBody,
    InputTensor,
    asked_of,
    check_name,
    content_type_of,
)
from penstock.doors.open_inference.rows import Rows
from penstock.doors.open_inference.shape import MODELS, VERSION, OpenInferenceDoor, model_at
from penstock.doors.open_inference.tensor import Tensor
from penstock.doors.openapi_parts import Described, Offer
from penstock.doors.plain import is_plain
from penstock.doors.steps import Steps
from penstock.edge.answer import Answer
from penstock.edge.fields import Headers
from penstock.errors import Malformed, Unacceptable
from penstock.types import Ask, Reply

HEADER = b"inference-header-content-length"

_BODY = msgspec.json.Decoder(InferBody)


class Infer(OpenInferenceDoor, AskingDoor):
    """Takes tensors, in JSON or in binary."""

    path = f"{MODELS}{{model}}/infer"
    small = SMALL
    others = True  # with binary tensors, clients call a body application/octet-stream, or say nothing

    def read_letter(self, letter: Letter) -> Steps[Sequence[Ask]]:
        model, body = model_at(letter.path), letter.body
        gateway = self.inside.gateway
        kind, takes_bytes = gateway.kind_of(model), gateway.takes_bytes(model)
        length = json_length(letter.headers, body)
        head = body if length is None else body[:length]
        yield from check_unicode(head)
        said = decode(_BODY, head, is_unicode=True)
        yield
        if said.model_name not in (None, model) or said.model_version not in (None, "", VERSION):
            raise Unacceptable("'model_name' and 'model_version' must be those of the path")
        asked = asked_of(said)
        binary = memoryview(body)[len(head) :]
        tensors = yield from self._tensors(said, binary)
        rows = tensors[0][0].shape[0]
        if any(each.shape[0] != rows for each, _ in tensors):
            raise Unacceptable("all inputs must have the same number of rows: the first size of their shapes")
        self.inside.check_number(rows)
        maker = Rows(inputs_of(self.inside), model, kind=kind, takes_bytes=takes_bytes)
        inputs = yield from maker.inputs_of(tensors)
        asks = [Ask(each, model, asked.parameters, None, asked.timeout) for each in inputs]
        return Call(asks, partial(answer_to, Wanted(said.id, asked.outputs, asked.binary)))

    def _tensors(self, said: InferBody, binary: memoryview) -> Steps[list[tuple[Tensor, str]]]:
        """Returns the tensors of a request, each with its content type."""
        tensors, at = [], 0
        for each in said.inputs:
            check_name(each.name, "input")
            tensor.check(each.name, each.datatype, each.shape)
            size = binary_size(each)
            if size is None:
                read = tensor.spelt_out(each.name, each.datatype, each.shape, bytes(each.data))
            else:
                if at + size > len(binary):
                    raise Unacceptable(f"the body ends before the bytes of the input {each.name[:50]!r}")
                read = tensor.binary(each.name, each.datatype, each.shape, binary[at : at + size])
                at += size
            tensors.append(((yield from read), content_type_of(each.parameters, said.parameters)))
        if at != len(binary):
            raise Unacceptable(
                f"{len(binary) - at} bytes follow those of the inputs: give each its 'binary_data_size'"
            )
        return tensors

    def read(self, body: bytes, headers: Headers) -> Steps[Sequence[Ask]]:
        raise NotImplementedError  # a letter names the model

    def is_quick(self, letter: Letter) -> bool:
        """Whether it is so: few rows in a body that is not large, or a large one with numbers in binary for a
        function, which gets them as they are."""
        body = letter.body
        length = json_length(letter.headers, body)
        head = body if length is None else body[:length]
        if len(body) > LARGE and length is None:
            return is_plain(body)  # it is JSON, whatever its client calls it
        if len(head) > LARGE:
            return False
        takes_bytes = self.inside.gateway.takes_bytes(model_at(letter.path))
        try:
            inputs = _BODY.decode(head).inputs
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return len(body) <= LARGE  # it is refused, in words
        if sum(sum(each.shape[:1]) for each in inputs) > MOST_ROWS:
            return False
        return len(body) <= LARGE or (takes_bytes and all(each.datatype != tensor.BYTES for each in inputs))

    def answer(self, replies: Sequence[Reply], now: float) -> Answer:
        return answer_to(Wanted(None, None, binary=False), replies, now)

    def describe(self, offer: Offer) -> Described:
        return describe(self, offer)


class VersionInfer(Infer):
    """The same for a version of the model: the only one."""

    path = f"{MODELS}{{model}}/versions/{{version}}/infer"


def json_length(headers: Headers, body: bytes) -> int | None:
    """Returns how many bytes of the body are JSON; None: all of them."""
    said = headers.get(HEADER)
    if said is None:
        return None
    if not said.isdigit() or len(said) > 12 or int(said) > len(body):
        raise Malformed("'Inference-Header-Content-Length' must say how many bytes of the body are JSON")
    return int(said)


def binary_size(each: InputTensor) -> int | None:
    """Returns how many bytes of an input follow the JSON; None if its values are spelled out."""
    size = (each.parameters or {}).get("binary_data_size")
    if size is None:
        if not bytes(each.data):
            raise Unacceptable(f"the input {each.name[:50]!r} has no 'data', nor a 'binary_data_size'")
        return None
    if type(size) is not int or size < 0 or bytes(each.data):
        raise Unacceptable(
            f"'binary_data_size' of the input {each.name[:50]!r} must be a number of bytes, without 'data'"
        )
    return size
