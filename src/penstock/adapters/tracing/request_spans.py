"""Spans of requests at their gateway. `doors/traced.py` asks which requests are traced, and tells how they end."""

from collections.abc import Sequence

from penstock.adapters.tracing.context import SAMPLED, Context, Ids, context_of
from penstock.adapters.tracing.exporter import Exporter
from penstock.adapters.tracing.otlp import Kind, attribute, framed, key_value, span
from penstock.adapters.tracing.sampler import Sampler
from penstock.ports import Clock
from penstock.ports.tracing import Served

SERVER_FAULT = 500  # statuses from here on are failures of the server, and not of its client


class NotRecorded:
    """A request whose client records the trace, while our sampler says that we do not."""

    recorded = False
    is_new = False

    def __init__(self, traceparent: bytes) -> None:
        self.traceparent = traceparent

    def ended(self, served: Served) -> None:
        raise AssertionError("it is not recorded")


class RequestSpan:
    """The span of a request that is traced."""

    __slots__ = ("_began", "_context", "_parent", "_spans", "_state", "is_new", "traceparent")
    recorded = True

    def __init__(
        self, spans: "RequestSpans", context: Context, parent: bytes, state: str | None, began: float
    ) -> None:
        self._spans, self._context, self._parent, self._state = spans, context, parent, state
        self._began = began
        self.traceparent = context.traceparent.encode()
        self.is_new = not parent

    def ended(self, served: Served) -> None:
        self._spans.ended(self._context, self._parent, self._state, self._began, served)


class RequestSpans:
    """Implements `ports.tracing.RequestTracer`."""

    def __init__(
        self, sampler: Sampler, exporter: Exporter, clock: Clock, tiers: Sequence[str], scheme: str
    ) -> None:
        """`scheme`: http or https. `tiers`: their names, by rank."""
        self._exporter, self._clock, self._tiers = exporter, clock, dict(enumerate(tiers))
        self._sampler, self._follows, self._bound = sampler, sampler.follows_client, sampler.bound
        self._ids = Ids()
        self._draw = self._ids.draw
        self._scheme = attribute("url.scheme", scheme)

    def begin(self, traceparent: bytes | None, tracestate: bytes | None) -> RequestSpan | NotRecorded | None:
        if traceparent is None:
            low = self._draw(64)
            return None if low >= self._bound else self._begin_trace(low)
        said = traceparent.decode("ascii", "replace")
        sampled = said[54:55] in SAMPLED
        if self._follows and not sampled:
            return None
        context = context_of(said)
        if context is None:  # such as one of zeros
            return self.begin(None, None)
        if not self._follows and not self._sampler.takes(context.trace):
            return NotRecorded(f"{said[:53]}00{said[55:]}".encode()) if sampled else None
        state = None if tracestate is None else tracestate.decode("ascii", "replace")
        own = Context(context.trace, self._ids.span())
        return RequestSpan(self, own, context.span, state, self._clock())

    def _begin_trace(self, low: int) -> RequestSpan:
        return RequestSpan(self, Context(self._ids.trace(low), self._ids.span()), b"", None, self._clock())

    def ended(self, own: Context, parent: bytes, state: str | None, began: float, served: Served) -> None:
        method, path, route, status, code, reply = served
        told = [
            self._scheme,
            attribute("http.request.method", method),
            attribute("http.route", route),
            framed(9, key_value("url.path", path)) if path != route else attribute("url.path", path),
        ]
        if status:
            told.append(attribute("http.response.status_code", status))
        if code:
            told.append(attribute("error.type", code))
        if reply is not None:
            request, execution = reply.request, reply.execution
            told.append(framed(9, key_value("penstock.request_id", request.request_id)))
            told.append(attribute("penstock.model", request.model))
            told.append(attribute("penstock.tier", self._tiers.get(request.tier, str(request.tier))))
            if request.tenant:
                told.append(attribute("penstock.tenant", request.tenant))
            if execution is not None:
                told.append(attribute("penstock.cached", execution.cached))
                told.append(attribute("penstock.batch.size", execution.batch_size))
        wall, exporter = self._exporter.wall, self._exporter
        failed = bool(code) and not 0 < status < SERVER_FAULT
        exporter.add(
            span(
                own, parent, f"{method} {route}", Kind.SERVER, wall(began), wall(self._clock()),
                b"".join(told), state=state, failed=failed, remote=bool(parent),
            )
        )  # fmt: skip
