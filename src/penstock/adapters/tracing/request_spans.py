"""Spans of requests at their gateway. `doors/traced.py` asks which requests are traced, and tells how they end."""

from collections.abc import Sequence
from functools import lru_cache

from penstock.adapters.tracing.context import SAMPLED, Context, Ids, context_of
from penstock.adapters.tracing.exporter import Exporter
from penstock.adapters.tracing.otlp import Kind, TextAttribute, Value, attribute, attributes, span, title
from penstock.adapters.tracing.sampler import Sampler
from penstock.ports import Clock
from penstock.ports.tracing import Served

SERVER_FAULT = 500  # statuses from here on are failures of the server, and not of its client
_PATH, _ID = TextAttribute("url.path"), TextAttribute("penstock.request_id")


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
        told = [_served(method, route, status, code), self._scheme]
        told.append(_PATH(path))
        if reply is not None:
            request, execution = reply.request, reply.execution
            tier = self._tiers.get(request.tier, str(request.tier))
            told += (_ID(request.request_id), _asked(request.model, tier, request.tenant))
            if execution is not None:
                told.append(_executed(execution.cached, execution.batch_size))
        wall, exporter = self._exporter.wall, self._exporter
        exporter.add(
            span(
                own, parent, title(f"{method} {route}", Kind.SERVER), wall(began), wall(self._clock()),
                b"".join(told), state=state, failed=bool(code) and not 0 < status < SERVER_FAULT,
                remote=bool(parent),
            )
        )  # fmt: skip


# Attributes that go together. Few are different, so that most are written once.


@lru_cache(4096)
def _served(method: str, route: str, status: int, code: str) -> bytes:
    told: dict[str, Value] = {"http.request.method": method, "http.route": route}
    if status:
        told["http.response.status_code"] = status
    if code:
        told["error.type"] = code
    return attributes(told)


@lru_cache(4096)
def _asked(model: str, tier: str, tenant: str) -> bytes:
    told: dict[str, Value] = {"penstock.model": model, "penstock.tier": tier}
    return attributes(told | {"penstock.tenant": tenant} if tenant else told)


@lru_cache(4096)
def _executed(cached: bool, size: int) -> bytes:
    return attributes({"penstock.cached": cached, "penstock.batch.size": size})
