"""What a trace tells of a request when a part of its spans is missing, or when it is an unusual one."""

from collections.abc import Collection, Iterator
from typing import Any

import pytest

from penstock.explanation.facts import Facts
from penstock.explanation.from_trace import of_trace
from penstock.explanation.otlp_json import Span, spans_in
from penstock.explanation.story import story

MS = 1_000_000


def span(name: str, own: str, parent: str, start: int, end: int, *links: str, **attributes: Any) -> Span:
    """A span; times in milliseconds. Underscores in the names of attributes stand for dots."""
    kind, _, model = name.partition(" ")
    told = {"penstock." + key: value for key, value in attributes.items() if key not in ("code", "status")}
    if kind in ("wait", "process"):
        told |= {"messaging.operation.name": kind, "messaging.destination.name": model}
    if "code" in attributes:
        told["error.type"] = attributes["code"]
    if "status" in attributes:
        told["http.response.status_code"] = attributes["status"]
    return Span("t", own, parent, name, start * MS, end * MS, "code" in attributes, told, links, "here")


def wait(own: str, parent: str, start: int, end: int, request_id: str = "r", **attributes: Any) -> Span:
    return span("wait m", own, parent, start, end, request_id=request_id, **attributes)


def explained(*spans: Span, request_id: str = "r") -> Facts:
    def read(words: Collection[str]) -> Iterator[Span]:
        assert words
        yield from reversed(spans)

    facts = of_trace(request_id, read)
    assert facts is not None
    return facts


ROOT = span("POST /v1/inference", "root", "", 0, 30, request_id="r", model="m", tier="paid", tenant="acme")


def test_a_batch_with_several_spans_has_the_run_of_its_first() -> None:
    facts = explained(
        ROOT,
        wait("w1", "other", 0, 5, "first"),
        wait("w2", "root", 1, 5),
        span("process m", "b1", "w1", 5, 20, "w1", worker="m/0"),
        span("process m", "b2", "w1", 5, 20, "w2", worker="m/0"),
        span("run m", "run", "b1", 6, 19),
    )
    times = facts.timeline_ms
    assert (times.sealed, times.started, times.ended, times.answered) == (5.0, 6.0, 19.0, 30.0)
    assert facts.mates == ["first"]


def test_without_the_gateways_span_the_batch_tells_how_it_ended() -> None:
    batch = span("process m", "b", "w", 5, 20, "w", worker="m/0")
    facts = explained(wait("w", "gone", 1, 5), batch)
    assert (facts.status, facts.model, facts.latency_ms) == ("SUCCESS", "m", 19.0)
    assert facts.timeline_ms.answered is None
    failed = span("process m", "b", "w", 5, 20, "w", code="BACKEND_FAILED", worker="m/0")
    facts = explained(wait("w", "gone", 1, 5), failed)
    assert (facts.status, facts.error and facts.error.error) == ("FAILED", "BACKEND_FAILED")


def test_a_task_ended_when_its_batch_did() -> None:
    accepted = span("POST /v1/inference", "root", "", 0, 2, status=202)
    batch = span("process m", "b", "w", 5, 20, "w", worker="m/0")
    facts = explained(accepted, wait("w", "root", 0, 5), batch)
    assert (facts.status, facts.latency_ms, facts.timeline_ms.ended) == ("SUCCESS", 20.0, 20.0)
    unknown = explained(accepted, wait("w", "root", 0, 5))
    assert unknown.status == "UNKNOWN"
    assert "is not told" in story(unknown)[-1].text


def test_of_a_call_with_several_inputs_the_slowest_is_told() -> None:
    call = span("POST /embed", "root", "", 0, 50)
    spans = [wait("w1", "root", 0, 5), wait("w2", "root", 0, 15)]
    batches = [span("process m", "b1", "w1", 5, 14, "w1"), span("process m", "b2", "w2", 15, 40, "w2")]
    assert explained(call, *spans, *batches).timeline_ms.sealed == 15.0


@pytest.mark.parametrize(
    ("code", "told", "status"),
    [
        ("DEADLINE_EXCEEDED", {"model": "m"}, "EXPIRED"),
        ("CLIENT_LEFT", {"model": "m"}, "CANCELLED"),
        ("BACKEND_FAILED", {"model": "m"}, "FAILED"),
        ("NOT_FOUND", {}, "REFUSED"),
    ],
)
def test_the_error_says_how_it_ended(code: str, told: dict[str, str], status: str) -> None:
    root = span("POST /v1/inference", "root", "", 0, 1, request_id="r", code=code, **told)
    assert explained(root).status == status


def test_of_several_requests_with_one_id_the_latest_is_told() -> None:
    before = span("POST /v1/inference", "early", "", 0, 1, request_id="r", model="m", code="BACKEND_FAILED")
    after = span("POST /v1/inference", "late", "", 5, 7, request_id="r", model="m")
    facts = explained(after, before, wait("w", "early", 0, 1))
    assert (facts.status, facts.latency_ms) == ("SUCCESS", 2.0)


def test_otlp_is_read_in_all_its_spellings() -> None:
    text = b"""{"resourceSpans": [{"resource": {"attributes": [
        {"key": "service.instance.id", "value": {"stringValue": "host-1"}}]}, "scopeSpans": [{"spans": [
        {"traceId": "AB", "spanId": "CD", "name": "a", "startTimeUnixNano": "5", "endTimeUnixNano": 7,
         "kind": 2, "status": {"code": 2}, "links": [{"traceId": "AB", "spanId": "EF"}], "attributes": [
            {"key": "n", "value": {"intValue": "3"}}, {"key": "f", "value": {"doubleValue": 0.5}},
            {"key": "b", "value": {"boolValue": false}}, {"key": "l", "value": {"arrayValue": {"values": []}}}]},
        {"traceId": "ab", "spanId": "ee"}]}]}]}"""
    first, second = spans_in(text)
    assert first == Span("ab", "cd", "", "a", 5, 7, True, {"n": 3, "f": 0.5, "b": False}, ["ef"], "host-1")
    assert (second.failed, second.attributes, second.links) == (False, {}, [])
    assert [*spans_in(b'{"resourceMetrics": []}')] == []
    with pytest.raises(ValueError, match="truncated"):
        [*spans_in(b"{")]
