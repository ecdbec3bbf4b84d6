"""What a real receiver has of requests: whole traces, in one process and over Redis."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tracing_kit import SPAN, noting
from up_kit import up

from penstock.adapters.tracing.context import Ids
from server import PATIENT, running
from trace_receiver import Seen, TraceReceiver

TRACED = f"""{PATIENT}
[tracing]
endpoint = "{{receiver}}"
[models.pairs]
target = "{{target}}"
policy = "window"
max_batch = {{size}}
max_wait = "60s"
"""


@pytest.fixture
def parent() -> str:
    """A trace that no other test has."""
    return f"00-{Ids().trace(1).hex()}-{SPAN}-01"


def named(spans: list[Seen], name: str) -> list[Seen]:
    return [span for span in spans if span.name.startswith(name)]


def test_a_request_over_two_gateways_a_batcher_a_worker_and_an_endpoint_is_one_trace(
    trace_receiver: TraceReceiver, parent: str, tmp_path: Path
) -> None:
    _, trace, _, _ = parent.split("-")
    with noting() as endpoint:
        file = tmp_path / "penstock.toml"
        file.write_text(TRACED.format(receiver=trace_receiver.url, target=endpoint.url, size=2))
        with up(None, "--config", str(file), gateways=2) as whole:

            def ask(gateway: str) -> str | None:
                body = json.dumps({"input": gateway}).encode()
                given = whole.ask(
                    gateway, "POST", "/v1/inference", body, traceparent=parent, tracestate="vendor=1"
                )
                assert given.status == 200, given.body
                return given.headers["traceparent"]

            with ThreadPoolExecutor(2) as pool:
                told = [*pool.map(ask, ("gateway-1", "gateway-2"))]
            assert whole.end() == 0
    spans = trace_receiver.spans(trace)
    served, waits = named(spans, "POST /v1/inference"), named(spans, "wait pairs")
    (batch,), (run,) = named(spans, "process pairs"), named(spans, "run pairs")
    assert len(spans) == 6
    assert {span.parent for span in served} == {SPAN}
    assert len({span.instance for span in served}) == 2, "two gateways"
    assert {span.parent for span in waits} == {span.id for span in served}
    assert batch.parent in {span.id for span in waits}
    assert {*batch.links} == {span.context for span in waits}, "one link for each member"
    assert run.parent == batch.id
    [(_, called, state)] = endpoint.calls
    assert (called, state) == (f"00-{trace}-{run.id}-01", "vendor=1")
    assert {*told} == {f"00-{trace}-{span.id}-01" for span in served}, "the answer names the trace"
    assert {span.state for span in spans} == {"vendor=1"}
    assert [span.kind for span in (served[0], waits[0], batch, run)] == [
        "SERVER", "PRODUCER", "CONSUMER", "CLIENT",
    ]  # fmt: skip
    services = {span.name.split()[0]: span.service for span in spans}
    assert services == {
        "POST": "penstock-gateway", "wait": "penstock-batcher", "process": "penstock-batcher",
        "run": "penstock-worker",
    }  # fmt: skip
    assert batch.attributes["messaging.batch.message_count"] == 2
    assert run.attributes["url.full"] == endpoint.url


def test_a_poisoned_batch_shows_its_halves_and_who_was_to_blame(
    trace_receiver: TraceReceiver, parent: str
) -> None:
    _, trace, _, _ = parent.split("-")
    with noting() as endpoint:
        config = TRACED.format(receiver=trace_receiver.url, target=endpoint.url, size=4)
        with running(config=config) as server:

            def ask(text: str) -> int:
                return server.post("/v1/inference", {"input": text}, {"traceparent": parent}).status

            with ThreadPoolExecutor(4) as pool:
                statuses = [*pool.map(ask, ("a", "b", "c", "poison"))]
    assert statuses == [200, 200, 200, 502]
    spans = trace_receiver.spans(trace)
    batches = named(spans, "process pairs")
    whole, *rest = batches
    assert whole.failed
    assert whole.attributes["error.type"] == "BACKEND_FAILED"
    assert (len(whole.links), whole.attributes["penstock.attempt"]) == (4, 1)
    halves = [batch for batch in rest if batch.attributes["penstock.attempt"] == 2]
    assert sorted((len(half.links), half.failed) for half in halves) == [(2, False), (2, True)]
    assert sum(not batch.failed for batch in rest) == 2, "the good half, and the good one of the other"
    for batch in batches:
        waits = {span.context for span in named(spans, "wait pairs")}
        assert {*batch.links} <= waits
        (run,) = [run for run in named(spans, "run pairs") if run.parent == batch.id]
        assert run.failed == batch.failed
        assert run.attributes["http.response.status_code"] == (500 if run.failed else 200)
        assert run.start >= whole.start
    assert [called for _, called, _ in endpoint.calls] == [
        f"00-{trace}-{run.id}-01" for run in named(spans, "run pairs")
    ], "each call was told of its own run"
    served = {span.failed: span for span in named(spans, "POST /v1/inference")}
    assert served[True].attributes["error.type"] == "BACKEND_FAILED"
    assert served[True].attributes["http.response.status_code"] == 502


def test_a_batch_has_a_link_to_every_member_and_several_spans_where_they_are_too_many(
    trace_receiver: TraceReceiver, parent: str
) -> None:
    _, trace, _, _ = parent.split("-")
    config = TRACED.format(receiver=trace_receiver.url, target="sim:1ms", size=300)
    with running(config=config) as server:
        texts = [str(number) for number in range(300)]
        assert server.post("/embed", {"inputs": texts}, {"traceparent": parent}).status == 200
    spans = trace_receiver.spans(trace)
    batches, waits = named(spans, "process pairs"), named(spans, "wait pairs")
    assert sorted(len(batch.links) for batch in batches) == [44, 128, 128]
    assert [batch.attributes["penstock.batch.part"] for batch in batches] == ["1/3", "2/3", "3/3"]
    assert sorted(link for batch in batches for link in batch.links) == sorted(span.context for span in waits)
    (served,) = named(spans, "POST /embed")
    assert {span.parent for span in waits} == {served.id}
    (run,) = named(spans, "run pairs")
    assert run.parent == batches[0].id


def test_members_of_other_traces_lead_to_the_batch(trace_receiver: TraceReceiver) -> None:
    config = TRACED.format(receiver=trace_receiver.url, target="sim:1ms", size=2)
    with running(config=config) as server, ThreadPoolExecutor(2) as pool:

        def ask(text: str) -> str:
            return server.post("/v1/inference", {"input": text}).headers["traceparent"]

        traces = {told.split("-")[1] for told in pool.map(ask, "ab")}
    assert len(traces) == 2
    both = [span for trace in traces for span in trace_receiver.spans(trace)]
    (batch,) = named(both, "process pairs")
    (other,) = [span for span in named(both, "wait pairs") if span.trace != batch.trace]
    assert other.links == (batch.context,)
    assert {trace for trace, _ in batch.links} == traces
