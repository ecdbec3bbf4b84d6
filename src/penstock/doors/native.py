"""The native doors, `/v1/inference` and `/api/inference`: one input in, one output out, on the same connection or
as a task. The data plane calls them, as every door.

The output is never decoded here: the rest of the answer is written around its bytes. Unknown fields of a body are
refused, and the refusal names them.
"""

from collections.abc import Sequence

import msgspec

from penstock.doors.answer_forms import in_form
from penstock.doors.binary import Binary
from penstock.doors.door import AskingDoor, BecomesTask, Inside
from penstock.doors.every_answer import usual_of
from penstock.doors.inputs import (
    BACKSLASH,
    DELETE,
    QUOTE,
    check_unicode,
    decode,
    inputs_of,
)
from penstock.doors.native_body import InferenceBody, asked, check
from penstock.doors.native_described import describe_full, describe_short
from penstock.doors.openapi_parts import Described, Offer
from penstock.doors.steps import Steps
from penstock.doors.wishes import Media
from penstock.doors.wrong_body import in_words
from penstock.edge.answer import JSON_ALONE, Answer
from penstock.edge.caller import Render
from penstock.edge.fields import Headers
from penstock.output import NOTED, in_json
from penstock.types import Ask, Execution, Reply


class ShortBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body at `/api/inference`."""

    input: msgspec.Raw


_FULL = msgspec.json.Decoder(InferenceBody)
_decode_full = _FULL.decode
_SHORT = msgspec.json.Decoder(ShortBody)


class Inference(AskingDoor):
    """The full form: a body with everything that a client may say of a request."""

    name = "native"
    path = "/v1/inference"
    tasks = BecomesTask.AS_MODEL
    others = True

    def __init__(self, inside: Inside) -> None:
        super().__init__(inside)
        self._binary = Binary(inside)
        self._kinds = inside.gateway.kinds
        self._inputs = inputs_of(inside)

    def read(self, body: bytes, headers: Headers) -> Steps[Sequence[Ask]]:
        ascii_only = yield from check_unicode(body)
        said = decode(_FULL, body, is_unicode=True)
        yield
        check(said)
        checked = yield from self._inputs.check_in_steps(bytes(said.input), said.model, ascii_only=ascii_only)
        return [asked(said, checked)]

    def read_one(self, body: bytes) -> Ask | None:
        if body.isascii():  # what nearly all clients send is understood in a few steps
            try:
                said = _decode_full(body)
            except (msgspec.MsgspecError, RecursionError) as exc:
                raise in_words(exc, InferenceBody.__struct_fields__) from None
            if said.callback_url is not None:
                return None
            usual = said.client_id is None and said.timeout_ms is None and not said.parameters
            if usual and said.model in self._kinds:  # a plain string fits every kind of input
                payload = bytes(said.input)
                if payload[0] == QUOTE and BACKSLASH not in payload and DELETE not in payload:
                    return Ask(payload, said.model)
            ascii_only = True
        else:
            said, ascii_only = decode(_FULL, body, is_unicode=False), False
            if said.callback_url is not None:
                return None
        check(said)
        return asked(said, self._inputs.check(bytes(said.input), said.model, ascii_only=ascii_only))

    def read_other(self, media: Media, body: bytes, query: str) -> Steps[Sequence[Ask]]:
        return [(yield from self._binary.read(media, body, query))]

    def rendering(self, wanted: Media) -> Render:
        return in_form(wanted, self.render)

    def answer(self, replies: Sequence[Reply], now: float) -> Answer:
        return self.render(replies[0], now)

    def render(self, reply: Reply, now: float) -> Answer:
        """Returns the answer to a reply. The output goes last, as it is. The part that the members of a batch have
        in common is rendered once."""
        execution = reply.execution
        if execution is None:
            return super().render(reply, now)
        start, output, timing = around_output(reply, execution, now)
        told = usual_of(reply.request, now, timing)
        return Answer(200, JSON_ALONE, output, told, start.encode(), b"}")

    def describe(self, offer: Offer) -> Described:
        return describe_full(self.path, offer)


class ShortInference(AskingDoor):
    """The short form: a body with nothing but an input, for the default model. The client waits for the answer,
    even if the model's setting makes tasks, unless it asks for a task."""

    name = "short"
    path = "/api/inference"
    tasks = BecomesTask.IF_ASKED

    def __init__(self, inside: Inside) -> None:
        super().__init__(inside)
        self._inputs = inputs_of(inside)

    def read(self, body: bytes, headers: Headers) -> Steps[Sequence[Ask]]:
        ascii_only = yield from check_unicode(body)
        said = decode(_SHORT, body, is_unicode=True)
        yield
        return [Ask((yield from self._inputs.check_in_steps(bytes(said.input), None, ascii_only=ascii_only)))]

    def read_one(self, body: bytes) -> Ask:
        ascii_only = body.isascii()
        said = decode(_SHORT, body, is_unicode=ascii_only)
        return Ask(self._inputs.check(bytes(said.input), None, ascii_only=ascii_only))

    def answer(self, replies: Sequence[Reply], now: float) -> Answer:
        return self.render(replies[0], now)

    def render(self, reply: Reply, now: float) -> Answer:
        execution = reply.execution
        if execution is None:
            return super().render(reply, now)
        request = reply.request
        timing, _ = execution.rendered or _render(execution, request.model)
        queue = f"{(execution.started - request.arrival) * 1e3:.3f}"
        start = f'{{"request_id":"{request.request_id}","latency_ms":{(now - request.arrival) * 1e3:.3f},"output":'
        output, _ = in_json(reply.output)
        told = usual_of(request, now, f"queue;dur={queue}{timing}")
        return Answer(200, JSON_ALONE, output, told, start.encode(), b"}")

    def describe(self, offer: Offer) -> Described:
        return describe_short(self.path, offer)


def around_output(reply: Reply, execution: Execution, now: float) -> tuple[str, bytes, str]:
    """Returns what stands before the output in an answer in the full form; the output, after which only a brace
    is missing; and the times, as Server-Timing has them. A conversation writes its answers with it too."""
    request, output = reply.request, reply.output
    request_id, arrival = request.request_id, request.arrival
    timing, metadata = execution.rendered or _render(execution, request.model)
    queue = f"{(execution.started - arrival) * 1e3:.3f}"
    if output[-1] == NOTED:
        output, note = in_json(output)
        metadata = f",{note}{metadata}"
    start = (
        f'{{"request_id":"{request_id}","task_id":"{request_id}",'
        f'"latency_ms":{(now - arrival) * 1e3:.3f},"metadata":{{"queue_ms":{queue}{metadata}'
    )
    return start, output, f"queue;dur={queue}{timing}"


def _render(execution: Execution, model: str) -> tuple[str, str]:
    infer = f"{execution.seconds * 1e3:.3f}"
    version = msgspec.json.encode(execution.version).decode()
    execution.rendered = (
        f", infer;dur={infer}",
        f',"inference_ms":{infer},"batch_size":{execution.batch_size},"model_version":{version},'
        f'"cached":{"true" if execution.cached else "false"}}},"model":"{model}","output":',
    )
    return execution.rendered
