"""Spans of asks that are no requests by themselves: messages over a WebSocket, and lines of files."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tracing_kit import PARENT, SPAN, TRACE, keeping, noting
from websockets.sync.client import ClientConnection, connect

from penstock.adapters.tracing.context import Ids
from penstock.adapters.tracing.exporter import Exporter
from penstock.adapters.tracing.request_spans import RequestSpans
from penstock.adapters.tracing.sampler import Sampler
from penstock.doors.ask_traces import AskTraces
from penstock.types import Ask
from server import HUNG, PATIENT, Server, eventually, held, running
from trace_receiver import Seen

UNSAMPLED = PARENT[:-2] + "00"
CONFIG = """
[models.m]
target = "{target}"
default = true
[models.held]
target = "{held}"
[tracing]
endpoint = "{url}"
delay = "1ms"
[files]
directory = "files"
"""


@contextmanager
def streaming(server: Server, **headers: str) -> Iterator[ClientConnection]:
    url = server.url.replace("http", "ws", 1) + "/v1/stream"
    with connect(
        url, additional_headers=headers, open_timeout=HUNG, close_timeout=HUNG, proxy=None
    ) as socket:
        yield socket


def said(socket: ClientConnection, message: object) -> dict[str, Any]:
    """Says it, and returns the next answer."""
    socket.send(message if isinstance(message, str) else json.dumps(message))
    answer: dict[str, Any] = json.loads(socket.recv(HUNG))
    return answer


def of_request(spans: list[Seen], name: str, request_id: str) -> Seen:
    (found,) = [
        span
        for span in spans
        if span.name.startswith(name) and span.attributes.get("penstock.request_id") == request_id
    ]
    return found


def test_each_message_over_a_websocket_has_a_span_and_what_follows_has_its_trace(tmp_path: Path) -> None:
    with noting() as endpoint, keeping() as receiver:
        config = PATIENT + CONFIG.format(target=endpoint.url, held=held(tmp_path), url=receiver.url)
        with running(config=config) as server:
            with streaming(server) as socket:
                alone = said(socket, {"id": 1, "input": "alone"})["request_id"]
                again = said(socket, {"id": 2, "input": "again", "traceparent": "nonsense"})["request_id"]
                named = {"traceparent": PARENT, "tracestate": "vendor=1"}
                below = said(socket, {"id": 3, "input": "below", **named})["request_id"]
                untraced = {"traceparent": UNSAMPLED, "tracestate": "vendor=2"}
                assert "output" in said(socket, {"id": 4, "input": "untraced", **untraced})
                unknown = said(socket, {"id": 5, "input": "a", "model": "no"})
                assert unknown["error"] == "NOT_FOUND"
                broken = said(socket, "{")
                assert broken["error"] == "MALFORMED_REQUEST"
            other = f"00-{Ids().trace(1).hex()}-{SPAN}-01"
            with streaming(server, traceparent=other) as socket:
                follows = said(socket, {"id": 1, "input": "follows"})["request_id"]
                said(socket, {"id": 2, "input": "poison"})
                socket.send(json.dumps({"id": 3, "input": "held", "model": "held"}))
                eventually(lambda: server.health()["waiting_clients"] == 1)
            server.open()
        spans = receiver.spans()
    messages = [span for span in spans if span.name == "message /v1/stream"]
    connections = {span.trace: span for span in spans if span.name == "GET /v1/stream"}
    assert len(messages) == 8, "all but the one whose trace is not recorded"
    assert {span.kind for span in messages} == {"SERVER"}

    first, second = (of_request(messages, "message", each) for each in (alone, again))
    assert first.parent == second.parent == ""
    assert first.trace != second.trace, "each begins a trace of its own"
    assert not {first.trace, second.trace} & set(connections)
    assert first.attributes == {
        "http.route": "/v1/stream", "network.protocol.name": "websocket", "penstock.request_id": alone,
        "penstock.model": "m", "penstock.tier": "paid",
        "penstock.cached": False, "penstock.batch.size": 1,
    }  # fmt: skip
    wait, batch, run = (
        next(span for span in spans if span.trace == first.trace and span.name == name)
        for name in ("wait m", "process m", "run m")
    )
    assert (wait.parent, batch.parent, run.parent) == (first.id, wait.id, batch.id)
    assert first.start <= wait.start <= run.end <= first.end
    assert run.attributes["http.response.status_code"] == 200

    third = of_request(messages, "message", below)
    assert (third.trace, third.parent, third.state) == (TRACE, SPAN, "vendor=1")
    fourth = of_request(messages, "message", follows)
    assert (fourth.trace, fourth.parent) == (other[3:35], connections[other[3:35]].id)

    called = {inputs[0]: (parent, state) for inputs, parent, state in endpoint.calls}
    assert called["alone"] == (f"00-{run.trace}-{run.id}-01", None)
    parent, state = called["below"]
    assert (parent or "")[3:35] == TRACE
    assert state == "vendor=1"
    assert called["untraced"] == (UNSAMPLED, "vendor=2")

    wrong = {str(span.attributes["error.type"]): span for span in messages if "error.type" in span.attributes}
    assert {code: span.failed for code, span in wrong.items()} == {
        "NOT_FOUND": False, "MALFORMED_REQUEST": False, "BACKEND_FAILED": True, "CLIENT_LEFT": True,
    }  # fmt: skip
    assert wrong["NOT_FOUND"].attributes["penstock.request_id"] == unknown["request_id"]
    assert wrong["MALFORMED_REQUEST"].attributes["penstock.request_id"] == broken["request_id"]
    assert wrong["CLIENT_LEFT"].trace == fourth.trace
    failed = [span for span in spans if span.name == "run m" and span.failed]
    assert {span.attributes["http.response.status_code"] for span in failed} == {500}


def test_each_line_of_a_file_has_a_span_when_it_is_asked(tmp_path: Path) -> None:
    lines = [
        {"custom_id": text, "method": "POST", "url": "/v1/inference", "body": {"input": text, "model": "m"}}
        for text in ("a", "b")
    ]
    with noting() as endpoint, keeping() as receiver:
        config = PATIENT + CONFIG.format(target=endpoint.url, held=held(tmp_path), url=receiver.url)
        with running(config=config) as server:
            written = b"\n".join(json.dumps(each).encode() for each in lines)
            parts = (
                b'--x\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
                b'--x\r\ncontent-disposition: form-data; name="file"; filename="in.jsonl"\r\n\r\n'
            )
            form = {"content-type": "multipart/form-data; boundary=x"}
            untraced = {"traceparent": UNSAMPLED}
            file = server.post("/v1/files", parts + written + b"\r\n--x--\r\n", {**form, **untraced}).json()
            wish = {"input_file_id": file["id"], "endpoint": "/v1/inference", "completion_window": "24h"}
            batch = server.post("/v1/batches", wish, untraced).json()["id"]
            eventually(lambda: server.get(f"/v1/batches/{batch}", untraced).json()["status"] == "completed")
        spans = receiver.spans()
    asked = [span for span in spans if span.name == "line /v1/inference"]
    assert len(asked) == 2
    assert len({span.trace for span in asked}) == 2, "each is a trace of its own"
    assert {span.kind for span in asked} == {"INTERNAL"}
    for line in asked:
        assert line.parent == ""
        assert str(line.attributes["penstock.request_id"]).startswith("batch_req_")
        (wait,) = [span for span in spans if span.name == "wait m" and span.trace == line.trace]
        assert wait.parent == line.id
    assert {parent[3:35] for _, parent, _ in endpoint.calls if parent} <= {span.trace for span in asked}


def traces(sampler: str, ratio: float, parent: bytes | None = None) -> AskTraces:
    exporter = Exporter.__new__(Exporter)  # nothing is recorded here
    return AskTraces(
        "message",
        "/v1/stream",
        RequestSpans(Sampler(sampler, ratio), exporter, lambda: 1.0, (), "http"),
        parent,
    )


def test_asks_that_are_not_taken_belong_to_the_trace_that_they_name_or_to_none() -> None:
    never = traces("parentbased_traceidratio", 0.0)
    assert never.begin() is None
    named = never.begin(UNSAMPLED, "vendor=1")
    assert named is not None
    assert (named.traceparent, named.tracestate, named.span) == (UNSAMPLED, "vendor=1", None)
    named.ended(200, "")  # nothing is recorded

    off = traces("always_off", 0.0, PARENT.encode()).begin()
    assert off is not None
    assert (off.traceparent, off.span) == (UNSAMPLED, None), "those who go on with it know that it is not"
    ask = Ask(b'"a"')
    off.sign(ask)
    assert (ask.traceparent, ask.tracestate) == (UNSAMPLED, None)


def test_an_ask_that_waited_for_its_turn_began_when_it_came() -> None:
    taken = traces("always_on", 1.0).begin(since=0.25)
    assert taken is not None
    assert taken.span is not None
    assert taken.span.began == 0.25
