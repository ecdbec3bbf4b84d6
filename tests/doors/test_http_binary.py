"""Over HTTP: bodies that are bytes or MessagePack, and answers in these forms."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from server import PATIENT, Answer, Server, eventually, running

APP = """
import os

def turned(inputs, end=""):
    return [turn(each, end) for each in inputs]

def turn(value, end):
    if value == b"die":
        os._exit(1)
    if isinstance(value, dict):
        return {"kinds": {name: type(each).__name__ for name, each in value.items()}}
    return value[::-1] + (end.encode() if isinstance(value, bytes) else end)
"""
CONFIG = f"""{PATIENT}
[models.turned]
target = "APP:turned"
default = true
deterministic = true
cost = "characters"
max_cost = 1000000
[models.text]
target = "APP:turned"
input = "text"
[models.simulated]
target = "sim:1ms"
"""
OCTETS, MSGPACK = "application/octet-stream", "application/msgpack"
DATA = bytes(range(256))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    app = tmp_path_factory.mktemp("functions") / "app.py"
    app.write_text(APP)
    with running(config=CONFIG.replace("APP", str(app))) as server:
        yield server


def send(server: Server, kind: str, body: bytes, accept: str = "", query: str = "", **more: str) -> Answer:
    headers: Mapping[str, str] = {"content-type": kind, **({"accept": accept} if accept else {}), **more}
    return server.call("POST", f"/v1/inference{query}", body, headers)


def packed(server: Server, accept: str = "", **body: Any) -> Answer:
    return send(server, MSGPACK, msgspec.msgpack.encode(body), accept)


@pytest.mark.parametrize("size", [0, 1, 256, 300_000])  # within one read, and beyond
def test_bytes_in_and_bytes_out(server: Server, size: int) -> None:
    data = (DATA * (size // 256 + 1))[:size]
    answer = send(server, OCTETS, data, OCTETS)
    assert (answer.status, answer.headers["content-type"], answer.body) == (200, OCTETS, data[::-1])
    assert answer.headers["x-request-id"]
    assert "queue;dur=" in answer.headers["server-timing"]


def test_without_a_wish_the_answer_is_json_that_says_it_is_base64(server: Server) -> None:
    said = send(server, OCTETS, b"abc").json()
    assert (said["output"], said["metadata"]["output_encoding"]) == ("Y2Jh", "base64")
    assert "output_encoding" not in server.post("/v1/inference", {"input": "abc"}).json()["metadata"]


def test_the_rest_stands_in_the_query(server: Server) -> None:
    query = "?model=turned&timeout_ms=5000&client_id=me&parameters=%7B%22end%22%3A%22!%22%7D"
    assert send(server, OCTETS, b"abc", OCTETS, query).body == b"cba!"
    for wrong, word in (
        ("?modell=turned", "modell"), ("?timeout_ms=1e3", "timeout_ms"), ("?timeout_ms=0", "timeout_ms"),
        ("?parameters=[", "parameters"), ("?parameters=[]", "parameters"), ("?client_id=", "client_id"),
    ):  # fmt: skip
        refused = send(server, OCTETS, b"abc", query=wrong)
        assert (refused.status, word in refused.json()["message"]) == (422, True)
    assert send(server, OCTETS, b"abc", query="?model=nobody").status == 404


def test_messagepack_in_and_out(server: Server) -> None:
    answer = packed(server, MSGPACK, input=DATA, parameters={"end": "!"})
    said = msgspec.msgpack.decode(answer.body)
    assert (answer.status, answer.headers["content-type"]) == (200, MSGPACK)
    assert (said["output"], said["model"]) == (DATA[::-1] + b"!", "turned")
    assert "output_encoding" not in said["metadata"]
    for name in ("application/x-msgpack", "application/vnd.msgpack"):
        assert send(server, name, msgspec.msgpack.encode({"input": "abc"})).json()["output"] == "cba"


def test_a_function_gets_bytes_only_where_they_were_sent_so(server: Server) -> None:
    said = packed(server, input={"data": b"x", "text": "x", "list": [b"x"]}).json()
    assert said["output"] == {"kinds": {"data": "bytes", "text": "str", "list": "list"}}
    said = server.post("/v1/inference", {"input": {"data": "eA=="}}).json()
    assert said["output"] == {"kinds": {"data": "str"}}


def test_what_cannot_be_given_in_the_form_that_is_wanted_comes_as_json(server: Server) -> None:
    answer = packed(server, OCTETS, input="abc")
    assert (answer.headers["content-type"], answer.json()["output"]) == ("application/json", "cba")
    refused = packed(server, MSGPACK, input="\x07")
    assert (refused.status, refused.json()["error"]) == (422, "UNACCEPTABLE")
    answer = server.post("/v1/inference", {"input": "abc"}, {"accept": f"text/html, {MSGPACK};q=0.5"})
    assert msgspec.msgpack.decode(answer.body)["output"] == "cba"


def test_only_functions_take_bytes_and_the_refusal_says_what_to_do(server: Server) -> None:
    for model in ("text", "simulated"):
        refused = send(server, OCTETS, b"abc", query=f"?model={model}")
        assert (refused.status, refused.json()["error"]) == (415, "UNSUPPORTED_MEDIA_TYPE")
        assert "send application/json" in refused.json()["message"]
        refused = packed(server, input=b"abc", model=model)
        assert (refused.status, "send application/json" in refused.json()["message"]) == (422, True)
        assert packed(server, input="abc", model=model).status == 200
    refused = server.call("POST", "/api/inference", b"abc", {"content-type": OCTETS})
    assert refused.status == 415


@pytest.mark.parametrize(
    "body", [b"", b"\x93", b"\xc1", b"\x81\xa5input", msgspec.msgpack.encode({"inputs": 1})]
)
def test_what_is_no_body_in_messagepack_is_refused(server: Server, body: bytes) -> None:
    assert send(server, MSGPACK, body).status in (400, 422)


def test_the_same_bytes_are_answered_from_the_cache_and_a_text_of_them_is_not(server: Server) -> None:
    def cached(answer: Answer) -> bool:
        return bool(answer.json()["metadata"]["cached"])

    assert not cached(send(server, OCTETS, b"twice"))
    eventually(lambda: cached(send(server, OCTETS, b"twice")))
    assert cached(packed(server, input=b"twice"))  # in whatever form they came
    assert not cached(packed(server, input="twice"))
    assert cached(server.post("/v1/inference", {"input": "twice"}))
    assert send(server, OCTETS, b"twice", OCTETS).body == b"eciwt"


def test_an_idempotency_key_names_bytes_as_well(server: Server) -> None:
    key = {"idempotency-key": "once"}
    first = send(server, OCTETS, b"abc", OCTETS, **key)
    again = send(server, OCTETS, b"abc", OCTETS, **key)
    assert (first.body, again.body, again.headers["idempotency-replayed"]) == (b"cba", b"cba", "true")
    assert server.post("/v1/inference", {"input": "abc"}, key).status == 409


def test_bytes_become_a_task(server: Server) -> None:
    accepted = send(server, OCTETS, b"abc", prefer="respond-async")
    assert accepted.status == 202
    task = server.get(f"{accepted.headers['location']}?wait_ms=30000").json()
    assert (task["output"], task["metadata"]) == ("Y2Jh", {"output_encoding": "base64"})


def test_bytes_that_kill_are_shown_as_base64_in_their_dead_letter(server: Server) -> None:
    assert send(server, OCTETS, b"die").status == 502

    def shown() -> bool:
        letters = server.admin("/internal/dlq").json()
        said = [server.admin(f"/internal/dlq/{each['id']}").json() for each in letters]
        return [(each["input"], each["input_encoding"]) for each in said] == [("ZGll", "base64")]

    eventually(shown)


def test_the_document_offers_what_the_models_take(server: Server, tmp_path: Path) -> None:
    post = server.get("/openapi.json").json()["paths"]["/v1/inference"]["post"]
    assert {*post["requestBody"]["content"]} == {"application/json", MSGPACK, OCTETS}
    assert {each["name"] for each in post["parameters"] if each["in"] == "query"} == {
        "model", "parameters", "client_id", "timeout_ms",
    }  # fmt: skip
    with running("sim:1ms") as other:
        post = other.get("/openapi.json").json()["paths"]["/v1/inference"]["post"]
    assert {*post["requestBody"]["content"]} == {"application/json", MSGPACK}
    assert json.dumps(post).count('"query"') == 0
