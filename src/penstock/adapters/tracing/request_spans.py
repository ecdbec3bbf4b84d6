"""Spans of requests at their gateway. `roles/traces.py` makes `RequestSpans`. The data plane asks it whether a
request is traced, and tells the `RequestSpan` how it ends (`doors/traced.py`, `doors/ask_traces.py`). What a span
says of the way that its request came is in `ways.py`."""

from collections.abc import Sequence
from functools import lru_cache
from random import Random
from typing import NamedTuple

from penstock.adapters.tracing.context import SAMPLED, context_of
from penstock.adapters.tracing.exporter import Exporter, Wall
from penstock.adapters.tracing.otlp import TextAttribute, Value, attribute, attributes, span
from penstock.adapters.tracing.sampler import Sampler
from penstock.adapters.tracing.ways import described, shortened
from penstock.ports import Clock
from penstock.ports.tracing import Served, Way

# What a span says of a reply: the request's id, its model, tier and tenant and, if the request was executed,
# whether the answer was another request's and the size of the batch.
Asked = tuple[str, str, int, str, tuple[bool, int] | None]
_ID = TextAttribute("penstock.request_id")


class NotRecorded:
    """A request whose client records the trace, while our sampler says that we do not."""

    recorded = False
    is_new = False
    began = 0.0

    def __init__(self, traceparent: bytes) -> None:
        self.traceparent = traceparent

    def ended(self, served: Served) -> None:
        raise AssertionError("it is not recorded")


class RequestSpan:
    """The span of a request that is traced."""

    __slots__ = ("_parent", "_spans", "_state", "began", "is_new", "traceparent")
    recorded = True

    def __init__(self, spans: "RequestSpans", own: bytes, parent: str, state: str | None) -> None:
        self._spans, self._parent, self._state = spans, parent, state
        self.began = spans.clock()
        self.traceparent = own
        self.is_new = not parent  # whether the trace begins with this request

    def ended(self, served: Served) -> None:
        spans, reply = self._spans, served.reply
        asked: Asked | None = None
        if reply is not None:
            request, execution = reply.request, reply.execution
            asked = (
                request.request_id, request.model, request.tier, request.tenant,
                None if execution is None else (execution.cached, execution.batch_size),
            )  # fmt: skip
        spans.exporter.add(
            _Request(
                spans, self.traceparent, self._parent, self._state, self.began, spans.clock(),
                shortened(served.way), served.code, served.request_id, asked,
            )
        )  # fmt: skip


class _Request(NamedTuple):
    """A request that has ended; implements `exporter.Record`."""

    of: "RequestSpans"
    own: bytes  # a traceparent
    parent: str  # the id of the client's span, in hex; empty if there is none
    state: str | None
    began: float
    ended: float
    way: Way
    code: str
    request_id: str  # where nothing was asked
    asked: Asked | None

    @property
    def spans(self) -> int:
        return 1

    def write(self, wall: Wall) -> list[bytes]:
        own = context_of(self.own.decode())
        assert own is not None
        named, about, failed = described(self.way, self.code, self.of.scheme)
        told = [about]
        if self.request_id:
            told.append(_ID(self.request_id))
        if self.asked is not None:
            request_id, model, tier, tenant, executed = self.asked
            told += (_ID(request_id), _asked(model, self.of.tiers.get(tier, str(tier)), tenant))
            if executed is not None:
                told.append(_executed(*executed))
        return [
            span(
                own, bytes.fromhex(self.parent), named, wall(self.began), wall(self.ended), b"".join(told),
                state=self.state, failed=failed, remote=bool(self.parent),
            )
        ]  # fmt: skip


class RequestSpans:
    """Implements `ports.tracing.RequestTracer`."""

    def __init__(
        self, sampler: Sampler, exporter: Exporter, clock: Clock, tiers: Sequence[str], scheme: str
    ) -> None:
        """`scheme`: http or https. `tiers`: their names, by rank."""
        self.exporter, self.clock, self.tiers = exporter, clock, dict(enumerate(tiers))
        self._sampler, self._follows, self._bound = sampler, sampler.follows_client, sampler.bound
        self._draw = Random().getrandbits
        self.scheme = attribute("url.scheme", scheme)

    def begin(self, traceparent: bytes | None, tracestate: bytes | None) -> RequestSpan | NotRecorded | None:
        if traceparent is None:
            low = self._draw(64)
            if low >= self._bound:
                return None
            return RequestSpan(
                self, b"00-%016x%016x-%016x-01" % (self._draw(64) or 1, low, self._span()), "", None
            )
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
        own = b"00-%b-%016x-01" % (traceparent[3:35], self._span())
        return RequestSpan(self, own, said[36:52], state)

    def _span(self) -> int:
        return self._draw(64) or 1


# The functions below write attributes that go together. Few are different, so that most are written once.


@lru_cache(4096)
def _asked(model: str, tier: str, tenant: str) -> bytes:
    told: dict[str, Value] = {"penstock.model": model, "penstock.tier": tier}
    return attributes(told | {"penstock.tenant": tenant} if tenant else told)


@lru_cache(4096)
def _executed(cached: bool, size: int) -> bytes:
    return attributes({"penstock.cached": cached, "penstock.batch.size": size})
