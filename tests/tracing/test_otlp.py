"""Our own encoding beside OpenTelemetry's: its parser reads what we write, and finds what its encoder would say."""

from collections.abc import Sequence

import pytest
from google.protobuf.json_format import MessageToDict
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from penstock.adapters.tracing.context import Context
from penstock.adapters.tracing.otlp import (
    Kind,
    Value,
    attribute,
    key_value,
    link,
    rejected,
    request,
    request_head,
    span,
    title,
)

RESOURCE: dict[str, Value] = {"service.name": "penstock", "process.pid": 7}
THEIR_KINDS = {
    Kind.INTERNAL: SpanKind.INTERNAL,
    Kind.SERVER: SpanKind.SERVER,
    Kind.CLIENT: SpanKind.CLIENT,
    Kind.PRODUCER: SpanKind.PRODUCER,
    Kind.CONSUMER: SpanKind.CONSUMER,
}

values = (
    st.text(st.characters(codec="utf-8"))
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, min_value=1e-300)
)
nanoseconds = st.integers(0, 2**63)
contexts = st.builds(
    Context,
    st.binary(min_size=16, max_size=16).filter(any),
    st.binary(min_size=8, max_size=8).filter(any),
)


def theirs(context: Context, state: str | None = None, *, remote: bool = True) -> SpanContext:
    trace, own = int.from_bytes(context.trace, "big"), int.from_bytes(context.span, "big")
    states = TraceState.from_header([state]) if state else TraceState()
    return SpanContext(trace, own, remote, TraceFlags(1), states)


def in_words(encoded: ExportTraceServiceRequest) -> object:
    """Everything but the lower flags, which the SDK leaves out, and a status of nothing, which we leave out."""
    for part in encoded.resource_spans:
        for scope in part.scope_spans:
            for each in scope.spans:
                each.flags &= ~0xFF
                if not each.status.code:
                    each.ClearField("status")
                for to in each.links:
                    to.flags = 0
    return MessageToDict(encoded)


@given(
    own=contexts,
    parent=st.none() | contexts,
    remote=st.booleans(),
    name=st.text(st.characters(codec="utf-8")),
    kind=st.sampled_from(Kind),
    times=st.tuples(nanoseconds, nanoseconds),
    said=st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1), values, max_size=5),
    state=st.sampled_from([None, "vendor=1", "a=1,b=2"]),
    links=st.lists(contexts, max_size=200),
    failed=st.booleans(),
)
def test_a_span_is_encoded_as_opentelemetry_encodes_it(
    own: Context,
    parent: Context | None,
    remote: bool,
    name: str,
    kind: Kind,
    times: tuple[int, int],
    said: dict[str, Value],
    state: str | None,
    links: Sequence[Context],
    failed: bool,
) -> None:
    above = b"" if parent is None else parent.span
    remote = remote and parent is not None
    told = b"".join(attribute(key, value) for key, value in said.items())
    written = span(
        own, above, title(name, kind), *times, told, state=state, links=[link(to) for to in links], failed=failed,
        remote=remote,
    )  # fmt: skip
    ours = ExportTraceServiceRequest.FromString(
        request(request_head(RESOURCE, "penstock", "0.1.0"), [written, written])
    )
    reference = ReadableSpan(
        name, theirs(own, state), None if parent is None else theirs(parent, remote=remote),
        Resource(RESOURCE), said, (), [Link(theirs(to)) for to in links], THEIR_KINDS[kind],
        status=Status(StatusCode.ERROR) if failed else Status(), start_time=times[0], end_time=times[1],
        instrumentation_scope=InstrumentationScope("penstock", "0.1.0"),
    )  # fmt: skip
    assert in_words(ours) == in_words(encode_spans([reference, reference]))


def test_flags_say_that_it_is_sampled_and_where_its_parent_is() -> None:
    own = Context(b"t" * 16, b"s" * 8)
    for remote, flags in ((False, 0x101), (True, 0x301)):
        written = span(own, b"p" * 8, title("name", Kind.SERVER), 1, 2, b"", links=[link(own)], remote=remote)
        [read] = ExportTraceServiceRequest.FromString(
            request(request_head(RESOURCE, "penstock", "1"), [written])
        ).resource_spans[0].scope_spans[0].spans  # fmt: skip
        assert isinstance(read, Span)
        assert (read.flags, read.links[0].flags) == (flags, 0x101)


def test_a_text_that_is_no_unicode_is_written_all_the_same() -> None:
    assert key_value("a", "\ud800") == key_value("a", "?")


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 2**32, 2**64 - 1])
def test_the_number_of_refused_spans_is_read(number: int) -> None:
    told = min(number, 2**63 - 1)
    answer = ExportTraceServiceResponse(
        partial_success=ExportTracePartialSuccess(rejected_spans=told, error_message="too many")
    )
    assert rejected(answer.SerializeToString()) == told


@given(st.binary(max_size=50))
def test_an_answer_that_is_no_answer_refuses_nothing_that_is_not_there(answer: bytes) -> None:
    assert rejected(answer) >= 0


def test_an_empty_answer_and_one_with_a_message_alone_refuse_nothing() -> None:
    only = ExportTraceServiceResponse(partial_success=ExportTracePartialSuccess(error_message="hm"))
    for answer in (b"", only.SerializeToString()):
        assert rejected(answer) == 0
