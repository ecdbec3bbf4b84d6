"""The doors of `inference.GRPCInferenceService`, the Open Inference Protocol v2, which clients of Triton and
KServe call. The data plane for gRPC calls them, as every door. What tensors mean is the same as over HTTP
(`doors/open_inference/`).
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import penstock
from penstock.doors.door import Call, Letter
from penstock.doors.every_answer import in_full, usual_of
from penstock.doors.grpc.calls import GrpcAsking, GrpcTelling, deadline_of, earlier, take_id
from penstock.doors.grpc.status import DENIED, STATUS_OF, UNAUTHENTICATED, failed
from penstock.doors.inputs import inputs_of
from penstock.doors.large import LARGE
from penstock.doors.open_inference import tensor
from penstock.doors.open_inference.about import EXTENSIONS, metadata_of
from penstock.doors.open_inference.answer import Wanted, chosen, told_of
from penstock.doors.open_inference.numbers import AT_ONCE, as_bytes
from penstock.doors.open_inference.outputs import tensors_of
from penstock.doors.open_inference.request import (
    LONGEST_NAME,
    MOST_ROWS,
    MOST_TENSORS,
    SMALL,
    Output,
    check_name,
    content_type_of,
    parameters_of,
    timeout_of,
)
from penstock.doors.open_inference.rows import Rows
from penstock.doors.open_inference.shape import VERSION, found
from penstock.doors.open_inference.tensor import BYTES, Tensor
from penstock.doors.steps import Steps
from penstock.edge.answer import Answer
from penstock.edge.fields import Headers
from penstock.errors import NoInput, NoSuchModel, Unacceptable
from penstock.protos.messages import message
from penstock.types import Ask, Failure, Reply

SERVICE = "inference.GRPCInferenceService"
DOOR = "grpc_open_inference"

_Response = message("inference.ModelInferResponse")
_StreamResponse = message("inference.ModelStreamInferResponse")
# The fields that spell values out, by datatype; the others come raw only.
_SPELT = {
    "BOOL": "bool_contents", "INT8": "int_contents", "INT16": "int_contents", "INT32": "int_contents",
    "INT64": "int64_contents", "UINT8": "uint_contents", "UINT16": "uint_contents", "UINT32": "uint_contents",
    "UINT64": "uint64_contents", "FP32": "fp32_contents", "FP64": "fp64_contents", BYTES: "bytes_contents",
}  # fmt: skip


class ModelInfer(GrpcAsking):
    """Takes tensors; each row is an ask."""

    name = DOOR
    path = f"/{SERVICE}/ModelInfer"
    request = message("inference.ModelInferRequest")
    small = SMALL

    def is_quick(self, letter: Letter) -> bool:
        """Whether it is so: few rows in a message that is not large."""
        if len(letter.body) > LARGE:
            return False
        return sum(sum(each.shape[:1]) for each in self.parse(letter.body).inputs) <= MOST_ROWS

    def read(self, body: bytes, headers: Headers) -> Steps[Sequence[Ask]]:
        said = self.parse(body)
        if self.several:
            take_id(said.id, headers)
        yield
        model = said.model_name
        if said.model_version not in ("", VERSION):
            raise NoSuchModel(f"no version {said.model_version[:50]!r} of the model {model[:100]!r}")
        gateway = self.inside.gateway
        kind, takes_bytes = gateway.kind_of(model), gateway.takes_bytes(model)
        given = _plain(said.parameters)
        tensors = yield from _tensors(said, given)
        rows = tensors[0][0].shape[0]
        if any(each.shape[0] != rows for each, _ in tensors):
            raise Unacceptable("all inputs must have the same number of rows: the first size of their shapes")
        self.inside.check_number(rows)
        maker = Rows(inputs_of(self.inside), model, kind=kind, takes_bytes=takes_bytes)
        inputs = yield from maker.inputs_of(tensors)
        timeout = earlier(timeout_of(given), deadline_of(headers))
        parameters = parameters_of(given) if given else b""
        for output in said.outputs:
            check_name(output.name, "output")
        outputs = [Output(output.name, binary=True) for output in said.outputs] or None
        if len(said.id) > LONGEST_NAME:
            raise Unacceptable(f"'id' is longer than {LONGEST_NAME} characters")
        wanted = Wanted(said.id, outputs, binary=True)
        asks = [Ask(each, model, parameters, None, timeout) for each in inputs]
        return Call(asks, partial(self.answer_wanted, wanted))

    def answer_wanted(self, wanted: Wanted, replies: Sequence[Reply], now: float) -> Answer:
        """Returns the answer to replies that all have an output."""
        made = _response(wanted, replies, now)
        request = replies[0].request
        if isinstance(made, str):
            failure = Failure(Unacceptable.code, f"the model {request.model!r} {made}")
            return self.failure(failure, request.request_id)
        return Answer(200, (), self.serialized(made), usual_of(request, now))

    def serialized(self, response: Any) -> bytes:
        content: bytes = response.SerializeToString()
        return content

    def answer(self, replies: Sequence[Reply], now: float) -> Answer:
        return self.answer_wanted(Wanted(None, None, binary=True), replies, now)


class ModelStreamInfer(ModelInfer):
    """The same for a stream of requests. A request that fails is told of in the stream, which goes on; a client
    that is not known ends it."""

    path = f"/{SERVICE}/ModelStreamInfer"
    several = True

    def serialized(self, response: Any) -> bytes:
        response.parameters["triton_final_response"].bool_param = True
        content: bytes = _StreamResponse(infer_response=response).SerializeToString()
        return content

    def failure(self, failure: Failure, request_id: str) -> Answer:
        answer = failed(failure, request_id)
        if STATUS_OF.get(failure.code) in (UNAUTHENTICATED, DENIED):
            return answer
        said = _StreamResponse(error_message=in_full(failure))
        said.infer_response.id = request_id
        return Answer(answer.status, (), said.SerializeToString(), code=failure.code)


def _plain(parameters: Any) -> dict[str, Any]:
    """Returns parameters as plain values."""
    plain = {}
    for name, value in parameters.items():
        choice = value.WhichOneof("parameter_choice")
        if choice is not None:
            plain[name] = getattr(value, choice)
    return plain


def _tensors(said: Any, given: dict[str, Any]) -> Steps[list[tuple[Tensor, str]]]:
    """Returns the tensors of a request, each with its content type."""
    raw, inputs = said.raw_input_contents, said.inputs
    if not inputs:
        raise NoInput("there is no input in the request")
    if len(inputs) > MOST_TENSORS or len(said.outputs) > MOST_TENSORS:
        raise Unacceptable(f"a request has at most {MOST_TENSORS} inputs and as many outputs")
    if len({each.name for each in inputs}) < len(inputs):
        raise Unacceptable("two inputs have the same name")
    if raw and len(raw) != len(inputs):
        raise Unacceptable(f"there are {len(inputs)} inputs, and raw contents for {len(raw)}")
    tensors = []
    for at, each in enumerate(inputs):
        name, datatype, shape = each.name, each.datatype, list(each.shape)
        check_name(name, "input")
        tensor.check(name, datatype, shape)
        data = memoryview(raw[at] if raw else (yield from _spelt_out(each)))
        tensors.append(
            (
                (yield from tensor.binary(name, datatype, shape, data)),
                content_type_of(_plain(each.parameters), given),
            )
        )
    return tensors


def _spelt_out(each: Any) -> Steps[bytes]:
    """Returns values that are spelled out, as if they had come raw."""
    field = _SPELT.get(each.datatype)
    if field is None:
        raise Unacceptable(f"the input {each.name[:50]!r} is {each.datatype}: send it in raw_input_contents")
    values = getattr(each.contents, field)
    if each.datatype == BYTES:
        tensor.check_number(each.name, len(values))
    raw = bytearray()
    for at in range(0, len(values), AT_ONCE):
        some = values[at : at + AT_ONCE]
        if each.datatype == BYTES:
            raw += b"".join(part for value in some for part in (len(value).to_bytes(4, "little"), value))
        else:
            raw += as_bytes(each.name, each.datatype, some)
        yield
    return bytes(raw)


def _response(wanted: Wanted, replies: Sequence[Reply], now: float) -> Any:
    """Returns the message that answers these replies; or, in words, what the model does not give."""
    request = replies[0].request
    tensors = chosen(tensors_of([reply.output for reply in replies]), wanted)
    if isinstance(tensors, str):
        return tensors
    response = _Response(model_name=request.model, model_version=VERSION, id=wanted.id or "")
    for name, value in told_of(replies, now).items():
        parameter = response.parameters[name]
        match value:
            case bool():
                parameter.bool_param = value
            case int():
                parameter.int64_param = value
            case _:
                parameter.double_param = value
    for each, _ in tensors:
        response.outputs.add(name=each.name, datatype=each.datatype, shape=each.shape)
        response.raw_output_contents.append(each.raw())
    return response


# ---- what the server tells ---------------------------------------------------------------------------------


class ServerLive(GrpcTelling):
    """Tells that the process is there."""

    name = DOOR
    path = f"/{SERVICE}/ServerLive"
    request = message("inference.ServerLiveRequest")

    def told(self, message: Any) -> Any:
        return _LIVE(live=True)


class ServerReady(GrpcTelling):
    """Tells whether traffic should come."""

    name = DOOR
    path = f"/{SERVICE}/ServerReady"
    request = message("inference.ServerReadyRequest")

    def told(self, message: Any) -> Any:
        return _READY(ready=not self.inside.not_ready())


class ModelReady(GrpcTelling):
    """Tells whether a worker can serve a model now."""

    name = DOOR
    path = f"/{SERVICE}/ModelReady"
    public = False
    request = message("inference.ModelReadyRequest")

    def told(self, message: Any) -> Any:
        return _MODEL_READY(ready=_found(self, message)["ready"])


class ServerMetadata(GrpcTelling):
    """Tells what the server is."""

    name = DOOR
    path = f"/{SERVICE}/ServerMetadata"
    public = False
    request = message("inference.ServerMetadataRequest")

    def told(self, message: Any) -> Any:
        return _METADATA(name="penstock", version=penstock.__version__, extensions=EXTENSIONS)


class ModelMetadata(GrpcTelling):
    """Tells what a model takes and gives."""

    name = DOOR
    path = f"/{SERVICE}/ModelMetadata"
    public = False
    request = message("inference.ModelMetadataRequest")

    def told(self, message: Any) -> Any:
        return _MODEL_METADATA(**metadata_of(str(_found(self, message)["id"])))


_LIVE = message("inference.ServerLiveResponse")
_READY = message("inference.ServerReadyResponse")
_MODEL_READY = message("inference.ModelReadyResponse")
_METADATA = message("inference.ServerMetadataResponse")
_MODEL_METADATA = message("inference.ModelMetadataResponse")


def _found(door: GrpcTelling, asked: Any) -> Any:
    if asked.version not in ("", VERSION):
        raise NoSuchModel(f"no version {asked.version[:50]!r} of the model {asked.name[:100]!r}")
    return found(door.inside.gateway, asked.name)
