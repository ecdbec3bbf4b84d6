"""What a server tells of requests in its spans: of all that end, also by a refusal, and never what is theirs."""

import asyncio
import socket
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import grpc
import pytest
from tracing_kit import PARENT, SPAN, TRACE, keeping, noting
from up_kit import Started, started

from grpc_calls import asked, channel_to, infer, stream
from grpc_kit import Service, refusing, response_to, serving
from server import BANNER, HUNG, PATIENT, call, eventually, held, running
from trace_receiver import Seen

UNSAMPLED = PARENT[:-2] + "00"
CANARY = "swordfish-canary"


def config_of(url: str, target: str = "sim:1ms", more: str = "") -> str:
    return f'{PATIENT}[models.m]\ntarget = "{target}"\n[tracing]\nendpoint = "{url}"\n{more}'


def one(spans: list[Seen], name: str) -> Seen:
    (found,) = [span for span in spans if span.name.startswith(name)]
    return found


def is_ready(part: Started) -> bool:
    return call(part.admin, "GET", "/readyz").status == 200


def test_the_spans_of_a_request_lie_within_each_other_and_say_what_it_was() -> None:
    with keeping() as receiver:
        with running(config=config_of(receiver.url)) as server:
            said = server.post("/v1/inference", {"input": "a", "client_id": "acme"}, {"x-request-id": "mine"})
            assert said.status == 200
        spans = receiver.spans()
    served, wait, batch, run = (one(spans, name) for name in ("POST", "wait", "process", "run"))
    assert len(spans) == 4
    assert served.start <= wait.start <= wait.end <= batch.start <= run.start <= run.end <= batch.end
    assert batch.end <= served.end
    assert (wait.parent, batch.parent, run.parent) == (served.id, wait.id, batch.id)
    assert served.attributes == {
        "url.scheme": "http", "http.request.method": "POST", "http.route": "/v1/inference",
        "url.path": "/v1/inference", "http.response.status_code": 200, "penstock.request_id": "mine",
        "penstock.model": "m", "penstock.tier": "paid", "penstock.tenant": "acme", "penstock.cached": False,
        "penstock.batch.size": 1,
    }  # fmt: skip
    assert wait.attributes == {
        "messaging.system": "penstock", "messaging.operation.name": "wait", "messaging.operation.type": "send",
        "messaging.destination.name": "m", "penstock.tier": "paid", "penstock.request_id": "mine",
    }  # fmt: skip
    assert batch.attributes == {
        "messaging.system": "penstock", "messaging.operation.name": "process",
        "messaging.operation.type": "process", "messaging.destination.name": "m",
        "messaging.batch.message_count": 1, "penstock.batch.reason": "idle", "penstock.attempt": 1,
        "penstock.worker": "m/0",
    }  # fmt: skip
    assert run.attributes == {
        "penstock.target": "sim:1ms", "penstock.model": "m", "penstock.worker": "m/0",
        "penstock.batch.size": 1,
    }  # fmt: skip
    assert {span.service for span in spans} == {"penstock"}
    assert receiver.heads[0]["path"] == "/v1/traces"


@pytest.mark.parametrize(
    ("sampler", "parent", "traced", "told"),
    [
        ('sampler = "parentbased_traceidratio"\nratio = 0', PARENT, True, True),
        ('sampler = "parentbased_traceidratio"\nratio = 1', UNSAMPLED, False, UNSAMPLED),
        ('sampler = "parentbased_traceidratio"\nratio = 0', None, False, None),
        ('sampler = "parentbased_always_off"', None, False, None),
        ('sampler = "always_off"', PARENT, False, UNSAMPLED),
        ('sampler = "always_on"', UNSAMPLED, True, True),
        ("", None, True, True),
        ("", "nonsense", True, True),
        ("", f"00-{'0' * 32}-{SPAN}-01", True, True),
    ],
)
def test_what_is_traced_and_what_the_endpoint_is_told(
    sampler: str, parent: str | None, traced: bool, told: str | bool | None
) -> None:
    with noting() as endpoint, keeping() as receiver:
        config = config_of(receiver.url, endpoint.url, sampler)
        with running(config=config) as server:
            headers = {} if parent is None else {"traceparent": parent, "tracestate": "vendor=1"}
            assert server.post("/v1/inference", {"input": "a"}, headers).status == 200
        spans = receiver.spans()
    [(_, called, state)] = endpoint.calls
    assert len(spans) == (4 if traced else 0)
    if told is True:
        run, served = one(spans, "run"), one(spans, "POST")
        assert called == f"00-{run.trace}-{run.id}-01"
        ours = parent is not None and parent.startswith(f"00-{TRACE}")
        assert (served.trace == TRACE, served.parent) == (ours, SPAN if ours else "")
        assert state == ("vendor=1" if ours else None)
        assert run.attributes["http.response.status_code"] == 200
    else:
        assert called == told
        assert state == (None if told is None else "vendor=1")


def test_requests_that_are_refused_or_fail_say_why(tmp_path: Path) -> None:
    with keeping() as receiver:
        with running(config=config_of(receiver.url)) as server:
            for body, status in (({"input": "a", "model": "no"}, 404), ({"in": 1}, 422), (b"{", 400)):
                assert server.post("/v1/inference", body).status == status
            assert server.get("/v1/inference").status == 405
            assert server.get("/docs").status == 200
            assert server.get("/nowhere").status == 404
            assert server.get("/v1/result/none").status == 404
            assert call(server.url, "PROPFIND", "/v1/inference").status == 405
        spans = receiver.spans()
    strange = one(spans, "HTTP /v1/inference")
    assert strange.attributes["http.request.method"] == "_OTHER"
    assert strange.attributes["http.request.method_original"] == "PROPFIND"
    assert all("penstock.request_id" in span.attributes for span in spans)
    assert sorted(
        (span.name, span.attributes["http.response.status_code"], span.attributes["error.type"], span.failed)
        for span in spans
    ) == [
        ("GET /v1/inference", 405, "METHOD_NOT_ALLOWED", False),
        ("GET /v1/result/{task_id}", 404, "NOT_FOUND", False),
        ("HTTP /v1/inference", 405, "METHOD_NOT_ALLOWED", False),
        ("POST /v1/inference", 400, "MALFORMED_REQUEST", False),
        ("POST /v1/inference", 404, "NOT_FOUND", False),
        ("POST /v1/inference", 422, "UNACCEPTABLE", False),
    ]


def test_a_client_that_leaves_ends_its_span(tmp_path: Path) -> None:
    with keeping() as receiver:
        config = config_of(receiver.url, held(tmp_path), 'delay = "1ms"')
        with running(config=config) as server:
            body = b'{"input": "a"}'
            head = "POST /v1/inference HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
            head += f"content-length: {len(body)}\r\n\r\n"
            with socket.create_connection(server.address) as client:
                client.sendall(head.encode() + body)
                eventually(lambda: server.health()["waiting_clients"] == 1)
            eventually(lambda: any(span.name.startswith("POST") for span in receiver.spans()))
            server.open()
        served = one(receiver.spans(), "POST")
    assert served.failed
    assert served.attributes["error.type"] == "CLIENT_LEFT"
    assert "http.response.status_code" not in served.attributes


def test_tasks_and_calls_of_several_inputs_have_one_span_each_at_the_gateway() -> None:
    with keeping() as receiver:
        with running(config=config_of(receiver.url)) as server:
            assert server.post("/embed", {"inputs": ["a", "b", "c"]}).status == 200
            task = server.post("/v1/inference", {"input": "a"}, {"prefer": "respond-async"})
            assert task.status == 202
            path = f"/v1/result/{task.json()['task_id']}"
            eventually(lambda: server.get(path, {"traceparent": UNSAMPLED}).json()["status"] == "SUCCESS")
        spans = receiver.spans()
    call, accepted = one(spans, "POST /embed"), one(spans, "POST /v1/inference")
    assert accepted.attributes["http.response.status_code"] == 202
    for served, number in ((call, 3), (accepted, 1)):
        inside = [span for span in spans if span.trace == served.trace]
        assert sum(span.parent == served.id for span in inside) == number, "the wait of each"
        assert any(span.name == "run m" for span in inside)


def test_spans_hold_nothing_of_what_clients_and_endpoints_say() -> None:
    with noting() as endpoint, keeping() as receiver:
        target = endpoint.url.replace("://", f"://user:{CANARY}@") + f"?key={CANARY}"
        secret = (
            f'headers = {{ Authorization = "{CANARY}" }}\n[models.m.http]\nheaders = {{ X = "{CANARY}" }}'
        )
        with running(config=config_of(receiver.url, target, secret)) as server:
            headers = {"authorization": f"Bearer {CANARY}", "x-api-key": CANARY, "idempotency-key": CANARY}
            server.post(f"/v1/inference?{CANARY}", {"input": CANARY, "parameters": {"a": CANARY}}, headers)
            server.post("/v1/inference", {"input": CANARY, CANARY: 1})
            assert CANARY not in server.stderr()
        assert receiver.taken
        assert receiver.heads[0]["Authorization"] == CANARY
    assert not any(CANARY.encode() in body for body in receiver.taken)


def test_calls_of_grpc_and_runs_at_an_endpoint_of_grpc_say_so_in_the_words_of_rpc() -> None:
    async def shout(request: Any, context: Any) -> Any:
        texts = list(request.inputs[0].contents.bytes_contents)
        if b"bad" in texts:
            return await refusing(grpc.StatusCode.INVALID_ARGUMENT)(request, context)
        return response_to(request, [text.upper() for text in texts])

    def use(target: str) -> None:
        config = config_of(receiver.url, target, "[retries]\nattempts = 1\n")
        with running(None, "--grpc-port", "0", config=config) as server, channel_to(server) as channel:
            trace = (("traceparent", PARENT), ("x-request-id", "mine"))
            assert infer(channel, trace, text="a").text == "A"
            with pytest.raises(grpc.RpcError, match="NOT_FOUND"):
                infer(channel, text="a", model="no")
            said = (asked(id=text, text=text) for text in ("good", "bad"))
            answers = {each.id: each for each in stream(channel)(said, timeout=HUNG)}
            assert answers["good"].answer.text == "GOOD"
            assert answers["bad"].error.code == "BACKEND_FAILED"

    async def serve() -> None:
        async with serving(Service(shout)) as target:
            await asyncio.to_thread(use, target)

    with keeping() as receiver:
        asyncio.run(serve())
        spans = receiver.spans()
    calls, messages = (
        [span for span in spans if span.name == f"penstock.v1.Inference/{name}"]
        for name in ("Infer", "InferStream")
    )
    assert {span.kind for span in (*calls, *messages)} == {"SERVER"}
    good, unknown = calls
    assert (good.trace, good.parent) == (TRACE, SPAN)
    assert good.attributes == {
        "rpc.system": "grpc", "rpc.service": "penstock.v1.Inference", "rpc.method": "Infer",
        "rpc.grpc.status_code": 0, "penstock.request_id": "mine", "penstock.model": "m",
        "penstock.tier": "paid",  "penstock.cached": False,
        "penstock.batch.size": 1,
    }  # fmt: skip
    assert (unknown.attributes["rpc.grpc.status_code"], unknown.failed) == (5, False)
    assert unknown.attributes["error.type"] == "NOT_FOUND"
    assert not any(name.startswith(("http.", "url.")) for name in unknown.attributes)
    ended = {
        span.attributes["penstock.request_id"]: (
            span.attributes["rpc.grpc.status_code"], span.attributes.get("error.type"), span.failed
        )
        for span in messages
    }  # fmt: skip
    assert ended == {"good": (0, None, False), "bad": (13, "BACKEND_FAILED", True)}
    runs = [span for span in spans if span.name == "run m"]
    assert {run.attributes["rpc.grpc.status_code"]: run.failed for run in runs} == {0: False, 3: True}


@pytest.mark.parametrize(
    ("traced", "names", "told"),
    [
        ("gateway", ["POST /v1/inference"], "POST"),
        ("batcher", ["process m", "wait m"], "process"),
        ("worker", ["run m"], "run"),
    ],
)
def test_where_one_process_alone_is_traced_the_others_go_on_with_what_it_says(
    traced: str, names: list[str], told: str, tmp_path: Path, redis_urls: dict[str, str]
) -> None:
    redis = f'[redis]\nurl = "{redis_urls["valkey"]}"\nnamespace = "traces-{uuid4().hex[:8]}"\n'
    with noting() as endpoint, keeping() as receiver, ExitStack() as stack:
        (tmp_path / "traced.toml").write_text(redis + config_of(receiver.url, endpoint.url))
        (tmp_path / "plain.toml").write_text(redis + config_of("", endpoint.url))
        parts = [
            stack.enter_context(
                started(
                    Started, role, "--config", "traced.toml" if role == traced else "plain.toml",
                    *(("--port", "0") if role == "gateway" else ()), "--admin-port", "0", directory=tmp_path,
                )
            )
            for role in ("gateway", "batcher", "worker")
        ]  # fmt: skip
        found = BANNER.search(parts[0].says("serving"))
        assert found
        for part in parts:
            eventually(partial(is_ready, part))

        def ask(parent: str) -> int:
            headers = {"content-type": "application/json", "traceparent": parent, "tracestate": "vendor=1"}
            return call(found[1], "POST", "/v1/inference", b'{"input": "a"}', headers).status

        eventually(lambda: ask(UNSAMPLED) == 200)
        assert ask(PARENT) == 200
        for part in parts:
            assert part.end() == 0, part.lines
    spans = receiver.spans()
    assert sorted(span.name for span in spans) == names
    assert {span.trace for span in spans} == {TRACE}
    assert spans[0].parent == SPAN
    untraced, (_, called, state) = endpoint.calls
    assert untraced[1:] == (UNSAMPLED, "vendor=1")
    assert (called, state) == (f"00-{TRACE}-{one(spans, told).id}-01", "vendor=1")
