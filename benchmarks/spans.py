"""What a span costs to make and to encode: ours, and that of OpenTelemetry's SDK, with the same in it, in turns.
The benchmark `tracing` runs it; no server takes part."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanLimits, SpanProcessor, TracerProvider
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags

from penstock.adapters.tracing.context import Context, Ids
from penstock.adapters.tracing.otlp import Kind, attribute, link, span, title

TURNS = 41  # of each encoder; the median counts
SPANS = 64  # in a turn
LINKS = 64  # of the span that has many
ABOUT: dict[str, str | int | bool] = {
    "url.scheme": "http",
    "http.request.method": "POST",
    "http.route": "/v1/inference",
    "url.path": "/v1/inference",
    "http.response.status_code": 200,
    "penstock.model": "embed",
    "penstock.tier": "paid",
    "penstock.cached": False,
}


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds."""

    what: str
    ours: float
    theirs: float


class _Kept(SpanProcessor):
    """Keeps what has ended, as the SDK's own does before it sends it."""

    def __init__(self) -> None:
        self.ended: list[ReadableSpan] = []

    def on_start(self, span: Span, parent_context: object = None) -> None: ...

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span)


def costs_of_spans() -> list[Cost]:
    return [_compared("a span with 8 attributes", 0), _compared(f"one with {LINKS} links as well", LINKS)]


def _compared(what: str, links: int) -> Cost:
    ours, theirs = _ours(links), _theirs(links)
    times: tuple[list[float], list[float]] = [], []
    for turn in range(TURNS):
        for makers, taken in list(zip((ours, theirs), times, strict=True))[:: 1 if turn % 2 else -1]:
            began = time.perf_counter()
            makers()
            taken.append((time.perf_counter() - began) / SPANS * 1e6)
    return Cost(what, median(times[0]), median(times[1]))


def _ours(links: int) -> Callable[[], None]:
    ids = Ids()
    to = [Context(ids.trace(1), ids.span()) for _ in range(links)]

    def make() -> None:
        made = []
        for _ in range(SPANS):
            own = Context(ids.trace(ids.draw(64)), ids.span())
            told = b"".join([attribute(key, value) for key, value in ABOUT.items()])
            when, named = time.time_ns(), title("POST /v1/inference", Kind.SERVER)
            made.append(
                span(
                    own,
                    b"",
                    named,
                    when,
                    when,
                    told,
                    links=[link(each) for each in to],
                )
            )
        b"".join(made)

    return make


def _theirs(links: int) -> Callable[[], None]:
    kept, ids = _Kept(), Ids()
    provider = TracerProvider(
        resource=Resource({"service.name": "penstock"}), span_limits=SpanLimits(max_links=links or 1)
    )
    provider.add_span_processor(kept)
    tracer = provider.get_tracer("penstock")
    to = [(ids.draw(128) or 1, ids.draw(64) or 1) for _ in range(links)]

    def make() -> None:
        for _ in range(SPANS):
            linked = [Link(SpanContext(trace, own, True, TraceFlags(1))) for trace, own in to]
            tracer.start_span(
                "POST /v1/inference", kind=SpanKind.SERVER, attributes=ABOUT, links=linked
            ).end()
        encode_spans(kept.ended).SerializeToString()
        kept.ended.clear()

    return make
