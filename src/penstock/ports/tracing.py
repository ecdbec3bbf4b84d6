"""Which requests at a gateway are traced, and the span that each of those gets. The data plane asks with each
request (`doors/traced.py`), and doors with each ask that is no request by itself (`doors/ask_traces.py`).
`adapters/tracing/request_spans.py` implements it."""

from typing import NamedTuple, Protocol

from penstock.types import Reply


class ByHttp(NamedTuple):
    """It was a request of HTTP."""

    method: str
    path: str
    route: str  # the path of its door
    status: int  # of the answer; 0: there was none, since the client had left


class ByGrpc(NamedTuple):
    """It was a call of gRPC, or one message of a stream."""

    service: str
    method: str
    status: (
        int  # with which the call ended; of a message: with which it would have ended as a call of its own
    )


class OfMany(NamedTuple):
    """It was one of many that came together: a message over a WebSocket, or a line of a file."""

    what: str  # "message" or "line"
    route: str  # the path of the door
    status: int  # as HTTP would have it; 0: there was no answer, since the client had left


Way = ByHttp | ByGrpc | OfMany


class Served(NamedTuple):
    """How a request at a gateway ended."""

    way: Way  # how it came, and with which status it ended there
    code: str  # the error code; empty if it succeeded
    reply: Reply | None  # None: it came to no reply, or to several
    request_id: str = ""  # where it came to no reply; empty if it is not known


class RequestSpan(Protocol):
    """The span of one request."""

    traceparent: bytes  # what everything that is done for the request is told
    recorded: bool  # whether it is recorded here; `ended` is called only if it is
    is_new: bool  # whether it begins a trace; then the client's tracestate is not of this trace
    began: float  # on the gateway's clock; whoever began the span late may put the true time here

    def ended(self, served: Served) -> None:
        """The request was answered, or its client has left. Called once."""
        ...


class RequestTracer(Protocol):
    """Says which requests are traced."""

    def begin(self, traceparent: bytes | None, tracestate: bytes | None) -> RequestSpan | None:
        """A request begins now. `traceparent` and `tracestate`: as the client sent them, and well-formed. None: it
        is not traced, and these are passed on as they are."""
        ...
