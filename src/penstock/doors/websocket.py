"""The WebSocket door, `/v1/stream`: many asks over one connection. The data plane calls it, as every door; what is
said there afterwards is the matter of a `Conversation` (`conversation.py`).

Its frames are read by a library that only this door needs. Where it is not installed, the door says so.
"""

from importlib.util import find_spec

from penstock.doors.ask_traces import AskTraces
from penstock.doors.conversation import GOOD_BYE, WEBSOCKET, Conversation
from penstock.doors.door import Inside, TalkingDoor
from penstock.doors.handshake import agree
from penstock.doors.openapi_parts import STRING, Described, Offer, Part, object_of, parameter, refused
from penstock.doors.reception import Reception
from penstock.doors.stream_message import LONGEST_ID
from penstock.edge.answer import Answer
from penstock.edge.caller import Caller
from penstock.edge.fields import Headers, trace_in_bytes
from penstock.errors import NotInstalled

LIBRARY = "websockets"
MISSING = "WebSocket needs a library that is not installed on this server: pip install 'penstock[ws]'"


class WebSocketDoor(TalkingDoor):
    """Lets a connection become a conversation."""

    name = WEBSOCKET
    path = "/v1/stream"

    def __init__(self, inside: Inside) -> None:
        super().__init__(inside)
        self._installed = find_spec(LIBRARY) is not None

    async def meet(self, caller: Caller, headers: Headers, reception: Reception) -> None:
        agreed = agree(headers, self.inside.origins)
        if not self._installed:
            raise NotInstalled(MISSING)
        identity = await reception.identify(agreed.credentials) if agreed.credentials else None
        fields = [("sec-websocket-accept", agreed.accept)]
        if agreed.subprotocol is not None:
            fields.append(("sec-websocket-protocol", agreed.subprotocol))
        traces = AskTraces("message", self.path, self.inside.tracer, *trace_in_bytes(headers))
        talk = Conversation(self.inside, reception, agreed.credentials, identity, traces)
        caller.switch(Answer(101, fields, b""), talk)

    def describe(self, offer: Offer) -> Described:
        operation = {
            "operationId": "stream",
            "tags": ["Inference"],
            "summary": "Ask many things over one WebSocket",
            "description": _ABOUT.format(good_bye=GOOD_BYE.decode()),
            "parameters": [
                parameter(name, "header", about, STRING)
                for name, about in (
                    ("Upgrade", "`websocket`."),
                    ("Sec-WebSocket-Protocol", "`penstock`, and `bearer.KEY` from a web page."),
                    ("Origin", "Of a web page: this server's own, or one of `server.cors_origins`."),
                )
            ],
            "responses": {
                "101": {"description": "From now on it is a WebSocket."},
                **refused(400, 403, 426, 500, 501, 503),
            },
        }
        return Described({self.path: {"get": operation}}, {"StreamAsk": _ASK})


_ABOUT = f"""Each message is JSON, in a frame of text. `StreamAsk` is one ask; its answer is as at
`/v1/inference`, with the `id` that the client gave, or an error with it. Answers come as they are ready.
`{{{{"cancel": id}}}}` takes an ask back. `{{{{"authorization": "Bearer KEY"}}}}` says who asks, if no header field
and no subprotocol did. Before a server stops it says `{{good_bye}}`. An id has at most {LONGEST_ID} bytes."""

_ASK: Part = object_of(
    {
        "id": {"type": ["string", "number"], "description": "The answer has it too."},
        "input": {"description": "As at `/v1/inference`, and so are all others."},
        "model": {"type": ["string", "null"]},
        "parameters": {"type": ["object", "null"]},
        "client_id": {"type": ["string", "null"]},
        "timeout_ms": {"type": ["integer", "null"]},
        "traceparent": {
            "type": ["string", "null"],
            "description": "W3C trace context, passed on to the backend; otherwise the connection's holds.",
        },
        "tracestate": {"type": ["string", "null"], "description": "W3C trace context, with a `traceparent`."},
    },
    optional=["model", "parameters", "client_id", "timeout_ms", "traceparent", "tracestate"],
)
