"""Which trace an endpoint is told of: the same in one process and over Redis."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from up_kit import up

from server import PATIENT, Answer, running

PARENTS = {name: f"00-{name * 32}-{name * 16}-01" for name in "ab"}
CONFIG = """
[models.pairs]
target = "{url}"
policy = "window"
max_batch = 2
max_wait = "60s"
"""
Post = Callable[[str, dict[str, str]], Answer]


class Endpoint(ThreadingHTTPServer):
    """Notes the inputs and the trace of each call, and refuses the first ones."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.calls: list[tuple[set[str], str | None, str | None]] = []
        self.refuses = 0


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        endpoint = self.server
        assert isinstance(endpoint, Endpoint)
        inputs = json.loads(self.rfile.read(int(self.headers["content-length"])))["inputs"]
        endpoint.calls.append(({*inputs}, self.headers["traceparent"], self.headers["tracestate"]))
        good, endpoint.refuses = endpoint.refuses <= 0, endpoint.refuses - 1
        body = json.dumps({"outputs": inputs}).encode() if good else b"no"
        self.send_response(200 if good else 500)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *details: object) -> None: ...


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as served:
        thread = threading.Thread(target=served.serve_forever)
        thread.start()
        try:
            yield served
        finally:
            served.shutdown()
            thread.join()


@contextmanager
def one_process(config: str) -> Iterator[Post]:
    with running(config=PATIENT + config) as server:
        yield lambda text, headers: server.post("/v1/inference", {"input": text}, headers)


@contextmanager
def over_redis(config: str) -> Iterator[Post]:
    file = Path("penstock.toml")
    file.write_text(PATIENT + config)
    with up(None, "--config", str(file.absolute())) as installation:

        def post(text: str, headers: dict[str, str]) -> Answer:
            named = {name.replace("-", "_"): value for name, value in headers.items()}
            body = json.dumps({"input": text}).encode()
            return installation.ask("gateway-1", "POST", "/v1/inference", body, **named)

        yield post


@pytest.fixture(params=[one_process, over_redis])
def served(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Endpoint, Post]]:
    monkeypatch.chdir(tmp_path)
    with (
        endpoint() as called,
        request.param(CONFIG.format(url=f"http://127.0.0.1:{called.server_port}/")) as post,
    ):
        yield called, post


def both(post: Post, first: dict[str, str], second: dict[str, str]) -> None:
    """They share a batch, and are answered."""
    with ThreadPoolExecutor(2) as pool:
        for answer in pool.map(post, ("first", "second"), (first, second)):
            assert answer.status == 200, answer.body


def test_an_endpoint_is_told_of_the_trace_that_a_batch_has_and_of_its_state(
    served: tuple[Endpoint, Post],
) -> None:
    called, post = served
    traced = {"traceparent": PARENTS["a"], "tracestate": "vendor=1, other=2", "x-request-id": "mine"}
    both(post, {}, traced)
    assert called.calls == [({"first", "second"}, PARENTS["a"], "vendor=1, other=2")]


def test_a_state_without_a_trace_or_too_long_is_not_passed_on(served: tuple[Endpoint, Post]) -> None:
    called, post = served
    both(post, {"tracestate": "vendor=1"}, {"traceparent": "nonsense", "tracestate": "vendor=1"})
    both(post, {}, {"traceparent": PARENTS["a"], "tracestate": f"vendor={'x' * 512}"})
    assert called.calls == [({"first", "second"}, None, None), ({"first", "second"}, PARENTS["a"], None)]


def test_each_attempt_is_told_of_the_trace_of_those_in_it(served: tuple[Endpoint, Post]) -> None:
    called, post = served
    called.refuses = 3  # the batch, and each half once
    states = {name: {"traceparent": PARENTS[name], "tracestate": f"{name}=1"} for name in "ab"}
    both(post, states["a"], states["b"])
    whole, *alone = called.calls
    assert whole in [({"first", "second"}, PARENTS[name], f"{name}=1") for name in "ab"]
    assert {(text, parent, state) for (text,), parent, state in alone} == {
        ("first", PARENTS["a"], "a=1"), ("second", PARENTS["b"], "b=1"),
    }  # fmt: skip
    assert len(alone) == 4
