"""Webhooks, asked for over HTTP, and what is called: a real server, and a real one that listens."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from up_kit import up

from penstock.runtime.webhooks import key_of, signed
from server import PATIENT, Server, eventually, running

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ASYNC = {"prefer": "respond-async"}


@dataclass
class Hook:
    """What listens for webhooks."""

    url: str = ""
    statuses: list[int] = field(default_factory=list)  # of the next answers; then 200
    heard: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    def told(self) -> list[Any]:
        return [json.loads(body) for _, _, body in self.heard]


@contextmanager
def listening() -> Iterator[Hook]:
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            fields = {name.lower(): value for name, value in self.headers.items()}
            hook.heard.append((self.path, fields, body))
            self.send_response(hook.statuses.pop(0) if hook.statuses else 200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hook.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield hook
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def hook() -> Iterator[Hook]:
    with listening() as hook:
        yield hook


def config(hook: Hook) -> str:
    return f"""{PATIENT}
[webhooks]
allow = ["{hook.url}", "http://10.9.8.7"]
private = ["127.0.0.0/8"]
secret = "{SECRET}"
base = "50ms" # so that the tests need not wait
"""


@pytest.fixture(scope="module")
def server(hook: Hook) -> Iterator[Server]:
    with running("sim:1ms", config=config(hook)) as server:
        yield server


def asked(server: Server, url: str, text: str = "a", **headers: str) -> Any:
    return server.post("/v1/inference", {"input": text, "callback_url": url}, {**ASYNC, **headers})


def test_the_end_of_a_task_is_told_signed_and_again_until_it_is_taken(server: Server, hook: Hook) -> None:
    hook.heard.clear()
    hook.statuses[:] = [500, 503]
    task_id = asked(server, f"{hook.url}/done?for=me", "grün").json()["task_id"]
    eventually(lambda: len(hook.heard) >= 3)
    (path, fields, body), second, third = hook.heard
    result = server.get(f"/v1/result/{task_id}").json()
    assert (path, json.loads(body)) == ("/done?for=me", result)
    assert (result["status"], result["output"]) == ("SUCCESS", "grün")
    assert fields["webhook-id"] == second[1]["webhook-id"] == third[1]["webhook-id"] == task_id
    expected = signed(key_of(SECRET), task_id, int(fields["webhook-timestamp"]), body)
    assert {name: fields[name] for name in expected} == expected


def test_a_task_that_fails_is_told_too(server: Server, hook: Hook) -> None:
    hook.heard.clear()
    late = {"input": "a", "timeout_ms": 1, "callback_url": hook.url, "model": "sim"}
    answer = server.post("/v1/inference", late, ASYNC)
    if answer.status == 202:  # or it was refused at once
        eventually(lambda: len(hook.heard) == 1)
        assert hook.told()[0]["status"] in ("EXPIRED", "SUCCESS")


def test_with_an_idempotency_key_it_is_told_once(server: Server, hook: Hook) -> None:
    hook.heard.clear()
    for _ in range(2):
        assert asked(server, hook.url, "once", **{"idempotency-key": "k"}).status == 202
    marker = asked(server, hook.url, "marker").json()["task_id"]
    eventually(lambda: any(each["task_id"] == marker for each in hook.told()))
    eventually(lambda: [each["output"] for each in hook.told()].count("once") == 1)


@pytest.mark.parametrize(
    ("url", "headers", "status", "words"),
    [
        ("http://elsewhere.example/x", ASYNC, 403, "http://elsewhere.example is not in webhooks.allow"),
        ("http://10.9.8.7/x", ASYNC, 403, "10.9.8.7 is a private address, and not in webhooks.private"),
        ("nonsense", ASYNC, 403, "must begin with https:// or http://"),
        ("HOOK", {}, 422, "'callback_url' is for tasks: send it with `Prefer: respond-async`"),
        ("HOOK", {"idempotency-key": "other"}, 422, "'callback_url' is for tasks"),
        (7, ASYNC, 422, "'callback_url' must be a string, not a number"),
    ],
)
def test_what_is_not_promised_is_told_in_words(
    server: Server, hook: Hook, url: object, headers: dict[str, str], status: int, words: str
) -> None:
    where = hook.url if url == "HOOK" else url
    answer = server.post("/v1/inference", {"input": "a", "callback_url": where}, headers)
    assert answer.status == status
    assert words in answer.json()["message"]


def test_it_is_described_where_it_can_be_had(server: Server) -> None:
    body = server.get("/openapi.json").json()["components"]["schemas"]["InferenceRequest"]
    assert "callback_url" in body["properties"]
    with running("sim:1ms") as other:
        body = other.get("/openapi.json").json()["components"]["schemas"]["InferenceRequest"]
        assert "callback_url" not in body["properties"]
        refused = asked(other, "https://hooks.example")
        assert (refused.status, refused.json()["error"]) == (403, "FORBIDDEN")
        assert "webhooks.allow" in refused.json()["message"]


def test_a_server_that_stops_still_tells_of_the_tasks_that_it_finishes(hook: Hook) -> None:
    hook.heard.clear()
    with running("sim:300ms", config=config(hook)) as server:
        task_id = asked(server, hook.url).json()["task_id"]
        assert server.stop() == 0
    assert [each["task_id"] for each in hook.told()] == [task_id]


def test_over_redis_the_gateway_that_took_the_task_tells_of_it(hook: Hook, tmp_path: Any) -> None:
    hook.heard.clear()
    (tmp_path / "penstock.toml").write_text(config(hook))
    with up("sim:1ms", "--config", str(tmp_path / "penstock.toml")) as whole:
        body = json.dumps({"input": "a", "callback_url": hook.url}).encode()
        task = whole.ask("gateway-1", "POST", "/v1/inference", body, **ASYNC).json()["task_id"]
        eventually(lambda: [each["task_id"] for each in hook.told()] == [task])
        assert hook.told()[0]["output"] == "a"
