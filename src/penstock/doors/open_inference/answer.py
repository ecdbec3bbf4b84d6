"""Writes the answer to a call of the Open Inference Protocol: its tensors in JSON or in binary, and how long it
took. The door for inference hands it to the gateway's replies (`infer.py`)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from penstock.doors.every_answer import usual_of
from penstock.doors.open_inference.outputs import OUTPUT, OutputTensor, tensors_of
from penstock.doors.open_inference.request import Output
from penstock.doors.open_inference.shape import VERSION, failed
from penstock.doors.open_inference.tensor import BYTES
from penstock.doors.wishes import Media
from penstock.edge.answer import JSON_ALONE, Answer
from penstock.errors import Unacceptable
from penstock.output import without_note
from penstock.types import Failure, Reply

HEADER = "inference-header-content-length"


class Wanted(NamedTuple):
    """What a request says of its answer."""

    id: str | None  # the client's own
    outputs: Sequence[Output] | None  # None: all there are
    binary: bool  # whether outputs that are not named come in binary


def answer_to(wanted: Wanted, replies: Sequence[Reply], now: float) -> Answer:
    """Returns the answer to replies that all have an output."""
    request = replies[0].request
    tensors = chosen(tensors_of([reply.output for reply in replies]), wanted)
    if isinstance(tensors, str):
        failure = Failure(Unacceptable.code, f"the model {request.model!r} {tensors}")
        answer = failed(failure, request.request_id)
        answer.code = failure.code
        return answer
    said: dict[str, Any] = {"model_name": request.model, "model_version": VERSION}
    if wanted.id is not None:
        said["id"] = wanted.id
    said["parameters"] = told_of(replies, now)
    said["outputs"], binary = [], list[bytes]()
    for tensor, is_binary in tensors:
        one: dict[str, Any] = {"name": tensor.name, "datatype": tensor.datatype, "shape": tensor.shape}
        raw = tensor.raw() if is_binary or _holds_bytes(tensor) else None
        if raw is None:
            one["data"] = tensor.values
        else:
            one["parameters"] = {"binary_data_size": len(raw)}
            binary.append(raw)
        said["outputs"].append(one)
    head, usual = msgspec.json.encode(said), usual_of(request, now)
    if not binary:
        return Answer(200, JSON_ALONE, head, usual)
    fields = (("content-type", Media.OCTETS.value), (HEADER, str(len(head))))
    return Answer(200, fields, b"".join(binary), usual, head)


def chosen(tensors: Sequence[OutputTensor], wanted: Wanted) -> Sequence[tuple[OutputTensor, bool]] | str:
    """Returns the tensors that a client wants, each with whether it comes in binary; or, in words, what the
    model does not give. The only tensor, which has no name of its own, takes the name that it is asked by."""
    if wanted.outputs is None:
        return [(tensor, wanted.binary) for tensor in tensors]
    if len(wanted.outputs) == len(tensors) == 1 and tensors[0].name == OUTPUT:
        [(name, binary)] = wanted.outputs
        return [(tensors[0]._replace(name=name), binary)]
    given = {tensor.name: tensor for tensor in tensors}
    missing = next((each.name for each in wanted.outputs if each.name not in given), None)
    if missing is not None:
        return f"gives no output {missing[:50]!r}: it gives {', '.join(given)[:200]}"
    return [(given[each.name], each.binary) for each in wanted.outputs]


def told_of(replies: Sequence[Reply], now: float) -> dict[str, Any]:
    """Returns what the `parameters` of an answer tell: the longest times of its rows, and the tokens of all."""
    arrival = replies[0].request.arrival
    told: dict[str, Any] = {"latency_ms": round((now - arrival) * 1e3, 3)}
    executions = [reply.execution for reply in replies if reply.execution is not None]
    if executions:
        told["queue_ms"] = round((max(each.started for each in executions) - arrival) * 1e3, 3)
        told["inference_ms"] = round(max(each.seconds for each in executions) * 1e3, 3)
        told["batch_size"] = max(each.batch_size for each in executions)
        told["cached"] = all(each.cached for each in executions)
    notes = [note for reply in replies if (note := without_note(reply.output)[1])]
    tokens = sum(msgspec.json.decode(f"{{{note}}}").get("tokens_used", 0) for note in notes)
    if tokens:
        told["tokens_used"] = tokens
    return told


def _holds_bytes(tensor: OutputTensor) -> bool:
    """Whether JSON cannot hold the values: some of them are bytes."""
    return tensor.datatype == BYTES and any(isinstance(value, bytes) for value in tensor.values)
