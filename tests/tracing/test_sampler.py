"""Which traces are taken: as OpenTelemetry's own samplers take them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.context import Context as TheirContext
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    DEFAULT_OFF,
    DEFAULT_ON,
    Decision,
    ParentBasedTraceIdRatio,
    TraceIdRatioBased,
)
from opentelemetry.sdk.trace.sampling import Sampler as TheirSampler
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from penstock.adapters.tracing.context import Context, context_of, is_sampled
from penstock.adapters.tracing.exporter import Exporter
from penstock.adapters.tracing.request_spans import RequestSpans
from penstock.adapters.tracing.sampler import SAMPLERS, Sampler
from penstock.config.sections import SAMPLERS as CONFIGURED

IDS = st.integers(1, 2**128 - 1)


def theirs(name: str, ratio: float) -> TheirSampler:
    return {
        "always_on": ALWAYS_ON,
        "always_off": ALWAYS_OFF,
        "traceidratio": TraceIdRatioBased(ratio),
        "parentbased_always_on": DEFAULT_ON,
        "parentbased_always_off": DEFAULT_OFF,
        "parentbased_traceidratio": ParentBasedTraceIdRatio(ratio),
    }[name]


class Fixed(RequestSpans):
    """It draws what it is given."""

    def __init__(self, sampler: Sampler, low: int) -> None:
        super().__init__(sampler, Exporter.__new__(Exporter), lambda: 0.0, (), "http")
        self._draw = lambda bits: low


@given(
    name=st.sampled_from(list(SAMPLERS)),
    ratio=st.floats(0, 1),
    trace=IDS,
    parent=st.sampled_from([None, True, False]),
)
def test_the_same_traces_are_taken(name: str, ratio: float, trace: int, parent: bool | None) -> None:
    context = TheirContext()
    if parent is not None:
        above = SpanContext(trace, 7, True, TraceFlags(int(parent)))
        context = set_span_in_context(NonRecordingSpan(above), context)
    decided = theirs(name, ratio).should_sample(context, trace, "name").decision
    tracer = Fixed(Sampler(name, ratio), trace % 2**64)
    said = None if parent is None else f"00-{trace:032x}-{7:016x}-{int(parent):02x}".encode()
    span = tracer.begin(said, None)
    taken = span is not None and span.recorded
    assert taken == (decided is Decision.RECORD_AND_SAMPLE)
    told = said if span is None else span.traceparent
    assert is_sampled(None if told is None else told.decode()) == taken, (
        "those who go on with the request know it"
    )


def test_the_configuration_offers_them_all() -> None:
    assert set(CONFIGURED) == set(SAMPLERS)


@given(st.binary(min_size=16, max_size=16).filter(any), st.binary(min_size=8, max_size=8).filter(any))
def test_a_context_is_read_as_it_was_written(trace: bytes, span: bytes) -> None:
    context = Context(trace, span)
    assert context_of(context.traceparent) == context
    assert is_sampled(context.traceparent)
    assert context_of(f"cc{context.traceparent[2:]}-more") == context, "of a later version"


@pytest.mark.parametrize(
    "garbage",
    [
        "", "00", "00-1", f"00-{'0' * 32}-{'1' * 16}-01", f"00-{'1' * 32}-{'0' * 16}-01",
        f"ff-{'1' * 32}-{'1' * 16}-01", f"00-{'1' * 32}-{'1' * 16}-01-more", f"00-{'G' * 32}-{'1' * 16}-01",
        f"00-{'1' * 32}-{'1' * 16}-01\n",
    ],
)  # fmt: skip
def test_what_names_no_span_is_no_context(garbage: str) -> None:
    assert context_of(garbage) is None
