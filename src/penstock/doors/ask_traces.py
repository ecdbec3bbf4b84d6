"""Traces asks that are no requests by themselves: messages over a WebSocket (`conversation.py`) and lines of files
(`openai_files/lines.py`). `traced.py` traces whole requests. A span is begun for each ask by the same sampler."""

import msgspec

from penstock.edge.fields import well_formed
from penstock.ports.tracing import OfMany, RequestSpan, RequestTracer, Served
from penstock.types import Ask, Reply

LEFT = "CLIENT_LEFT"  # the error code where a client leaves before anything was decided


class AskTrace(msgspec.Struct, eq=False):
    """The trace that one ask belongs to."""

    what: str
    route: str
    traceparent: str
    tracestate: str | None
    span: RequestSpan | None  # None: it is not recorded here, or has ended

    def sign(self, ask: Ask) -> None:
        """Have everything that is done for the ask go on with this trace."""
        ask.traceparent, ask.tracestate = self.traceparent, self.tracestate

    def ended(self, status: int, code: str, reply: Reply | None = None, request_id: str = "") -> None:
        """End the span; the first call counts. `status`, `code`: as in `OfMany` and `Served`."""
        span, self.span = self.span, None
        if span is not None:
            span.ended(Served(OfMany(self.what, self.route, status), code, reply, request_id))


class AskTraces:
    """Begins the traces of asks that come the same way."""

    def __init__(
        self,
        what: str,
        route: str,
        tracer: RequestTracer | None,
        parent: bytes | None = None,
        state: bytes | None = None,
    ) -> None:
        """`what`, `route`: as in `OfMany`. `tracer`: None if nothing is traced here. `parent`, `state`: the trace
        of asks that name none."""
        self._what, self._route, self._tracer = what, route, tracer
        self._parent, self._state = parent, state
        self.any = tracer is not None or parent is not None  # whether an ask that names no trace may have one

    def begin(
        self, parent: str | None = None, state: str | None = None, since: float | None = None
    ) -> AskTrace | None:
        """An ask begins now, or began at `since`. `parent`, `state`: the trace that it names, as it was written.
        None: it belongs to no trace."""
        above, shared = self._parent, self._state
        if parent is not None:
            own, own_state = well_formed(
                parent.encode(errors="replace"), None if state is None else state.encode(errors="replace")
            )
            if own is not None:
                above, shared = own, own_state
        span = None if self._tracer is None else self._tracer.begin(above, shared)
        if span is not None:
            above = span.traceparent
            if span.is_new:
                shared = None
            if since is not None:
                span.began = since
        if above is None:
            return None
        return AskTrace(
            self._what, self._route, above.decode(), None if shared is None else shared.decode(),
            span if span is not None and span.recorded else None,
        )  # fmt: skip
