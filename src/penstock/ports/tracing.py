"""Which requests at a gateway are traced, and the span that each of those gets. The data plane asks with each
request (`doors/traced.py`); `adapters/tracing/request_spans.py` implements it."""

from typing import NamedTuple, Protocol

from penstock.types import Reply


class Served(NamedTuple):
    """How a request at a gateway ended."""

    method: str
    path: str
    route: str  # the path of its door
    status: int  # the status of the answer; 0: there was none, since the client had left
    code: str  # the error code; empty if it succeeded
    reply: Reply | None  # None: it came to no reply, or to several


class RequestSpan(Protocol):
    """The span of one request."""

    traceparent: bytes  # what everything that is done for the request is told
    recorded: bool  # whether it is recorded here; `ended` is called only if it is
    is_new: bool  # whether it begins a trace; then the client's tracestate is not of this trace

    def ended(self, served: Served) -> None:
        """The request was answered, or its client has left. Called once."""
        ...


class RequestTracer(Protocol):
    """Says which requests are traced."""

    def begin(self, traceparent: bytes | None, tracestate: bytes | None) -> RequestSpan | None:
        """A request begins now. `traceparent` and `tracestate`: as the client sent them, and well-formed. None: it
        is not traced, and these are passed on as they are."""
        ...
