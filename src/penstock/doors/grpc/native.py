"""The doors of Penstock's own service, `penstock.v1.Inference`: one input in, one output out, as a call of its
own or in a stream of many. The data plane for gRPC calls them, as every door."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from penstock.doors.door import Call
from penstock.doors.every_answer import in_full, usual_of
from penstock.doors.grpc.calls import GrpcAsking, deadline_of, earlier, take_id
from penstock.doors.grpc.status import DENIED, STATUS_OF, UNAUTHENTICATED, failed
from penstock.doors.inputs import canonical, check_unicode, inputs_of
from penstock.doors.native_body import LONGEST_MS
from penstock.doors.steps import Steps
from penstock.edge.answer import Answer
from penstock.edge.fields import Headers
from penstock.errors import Unacceptable
from penstock.output import as_bytes, without_note
from penstock.payload import of_bytes
from penstock.protos.messages import message
from penstock.types import Ask, Failure, Reply

SERVICE = "penstock.v1.Inference"
LONGEST_ID = 200  # characters

_Response, _StreamResponse = message("penstock.v1.InferResponse"), message("penstock.v1.StreamResponse")
_text = msgspec.json.Decoder(str).decode


class Infer(GrpcAsking):
    """Takes one input."""

    path = f"/{SERVICE}/Infer"
    request = message("penstock.v1.InferRequest")

    def __init__(self, inside: Any) -> None:
        super().__init__(inside)
        self._inputs = inputs_of(inside)

    def read(self, body: bytes, headers: Headers) -> Steps[Sequence[Ask]]:
        said = self.parse(body)
        if self.several:
            take_id(said.id, headers)
        model, client_id = said.model or None, said.client_id or None
        if client_id is not None and len(client_id) > 128:
            raise Unacceptable("'client_id' must be 1 to 128 characters long")
        if len(said.id) > LONGEST_ID:
            raise Unacceptable(f"'id' is longer than {LONGEST_ID} characters")
        payload = yield from self._payload(said, model)
        parameters = canonical(said.parameters.encode()) if said.parameters else b""
        own = min(said.timeout_ms, LONGEST_MS) / 1e3 if said.timeout_ms else None
        ask = Ask(payload, model, parameters, client_id, earlier(own, deadline_of(headers)))
        return Call([ask], partial(self.answer_with, said.id))

    def _payload(self, said: Any, model: str | None) -> Steps[bytes]:
        match said.WhichOneof("input"):
            case "text":
                payload = msgspec.json.encode(said.text)
                ascii_only = payload.isascii()
            case "json":
                ascii_only = yield from check_unicode(said.json)
                try:
                    payload = bytes(msgspec.json.decode(said.json, type=msgspec.Raw))
                except (msgspec.MsgspecError, RecursionError):
                    raise Unacceptable("'json' is not JSON") from None
            case "octets":
                if not self.inside.gateway.takes_bytes(model):
                    raise Unacceptable("this model takes no bytes: send text, or JSON")
                return of_bytes(said.octets)
            case _:
                raise Unacceptable("there is no input: set 'text', 'json' or 'octets'")
        return (yield from self._inputs.check_in_steps(payload, model, ascii_only=ascii_only))

    def answer_with(self, own_id: str, replies: Sequence[Reply], now: float) -> Answer:
        """Returns the answer to the reply. `own_id`: the client's."""
        [reply] = replies
        request, execution = reply.request, reply.execution
        said = _Response(id=own_id, request_id=request.request_id, model=request.model)
        octets, note = as_bytes(reply.output)
        output = without_note(reply.output)[0]
        if octets is not None:
            said.octets = octets
        elif output.startswith(b'"'):
            said.text = _text(output)
        else:
            said.json = output
        said.latency_ms = (now - request.arrival) * 1e3
        if execution is not None:
            said.queue_ms = (execution.started - request.arrival) * 1e3
            said.inference_ms = execution.seconds * 1e3
            said.batch_size, said.cached = execution.batch_size, execution.cached
            said.model_version = execution.version
        if note:
            said.tokens_used = msgspec.json.decode(f"{{{note}}}").get("tokens_used", 0)
        return Answer(200, (), self.serialized(said), usual_of(request, now))

    def serialized(self, response: Any) -> bytes:
        content: bytes = response.SerializeToString()
        return content

    def answer(self, replies: Sequence[Reply], now: float) -> Answer:
        return self.answer_with("", replies, now)


class InferStream(Infer):
    """The same for a stream of requests. Each answer has the id of its request; one that fails is told of in
    the stream, which goes on; a client that is not known ends it."""

    path = f"/{SERVICE}/InferStream"
    several = True

    def serialized(self, response: Any) -> bytes:
        content: bytes = _StreamResponse(id=response.id, answer=response).SerializeToString()
        return content

    def failure(self, failure: Failure, request_id: str) -> Answer:
        answer = failed(failure, request_id)
        if STATUS_OF.get(failure.code) in (UNAUTHENTICATED, DENIED):
            return answer
        said = _StreamResponse(id=request_id)
        said.error.code, said.error.message = failure.code, in_full(failure)
        if failure.retry_after is not None:
            said.error.retry_after_ms = max(1, int(failure.retry_after * 1e3))
        return Answer(answer.status, (), said.SerializeToString(), code=failure.code)
