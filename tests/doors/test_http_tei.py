"""`POST /embed`, as clients of Text Embeddings Inference know it."""

import asyncio
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.adapters.api_keys.file import KeysFile
from penstock.auth.keys import make_key
from server import HUNG, PATIENT, Server, eventually, held, running
from wire import post

APP = """
def embed(inputs, **options):
    if "bad" in inputs:
        raise ValueError("a bad text")
    return [[float(len(text)), 0.5, *([options] if options else [])] for text in inputs]

def plain(inputs):
    return [[float(len(text))] for text in inputs]
"""

# A batch goes when it holds four: until then, requests wait.
HOLDING = f"""{PATIENT}
[models.holding]
target = "sim:1ms"
policy = "window"
max_batch = 4
max_wait = "60s"
[retries]
attempts = 1
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("embed") / "app.py"
    file.write_text(APP)
    return file


@pytest.fixture(scope="module")
def server(app: Path) -> Iterator[Server]:
    limits = "[limits]\nmax_asks = 8\n[retries]\nattempts = 2\nbase = '1ms'\n"
    with running(f"{app}:embed", config=PATIENT + limits) as server:
        yield server


def outcomes(server: Server, model: str) -> dict[str, float]:
    kinds = ("SUCCESS", "CLIENT_LEFT", "CANCELLED", "SERVICE_OVERLOADED", "BACKEND_FAILED")
    counted = {kind: server.metric("penstock_requests_total", model=model, outcome=kind) for kind in kinds}
    return {kind: number for kind, number in counted.items() if number}


@pytest.mark.parametrize(
    ("inputs", "lengths"),
    [
        ("hello", [5]),
        (["a", "bb", "ccc"], [1, 2, 3]),
        (["one"], [3]),
        ("[not a list]", [12]),
        (["größer", "日本語", '"\\', ""], [6, 3, 2, 0]),
        (["same", "same"], [4, 4]),
    ],
)
def test_each_text_has_one_output_in_their_order(
    server: Server, inputs: str | list[str], lengths: list[int]
) -> None:
    answer = server.post("/embed", {"inputs": inputs})
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == [[float(length), 0.5] for length in lengths]
    assert answer.headers["x-request-id"]


def test_several_texts_are_one_request_with_one_id(server: Server) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    said = {"x-request-id": "mine", "traceparent": trace}
    answer = server.post("/embed", {"inputs": ["a", "b"]}, said)
    assert (answer.headers["x-request-id"], answer.headers["traceparent"]) == ("mine", trace)


def test_options_go_on_to_the_model_unless_they_say_what_is_usual(server: Server) -> None:
    usual = {
        "truncate": False, "normalize": True, "prompt_name": None, "truncation_direction": "Right",
        "dimensions": None,
    }  # fmt: skip
    assert server.post("/embed", {"inputs": "a", **usual}).json() == [[1.0, 0.5]]
    unusual = {"truncate": True, "normalize": False, "prompt_name": "query", "dimensions": 2}
    assert server.post("/embed", {"inputs": ["a"], **unusual}).json() == [[1.0, 0.5, unusual]]


def test_options_that_the_model_does_not_take_are_refused(app: Path) -> None:
    with running(f"{app}:plain", config=PATIENT) as server:
        assert server.post("/embed", {"inputs": "a", "normalize": True}).status == 200
        for inputs in ("a", ["a", "b"]):
            answer = server.post("/embed", {"inputs": inputs, "truncate": True})
            assert (answer.status, answer.json()["error_type"]) == (422, "Validation")
            assert "takes no parameter" in answer.json()["error"]


@pytest.mark.parametrize(
    ("body", "status", "kind", "words"),
    [
        (b'{"inputs": []}', 400, "Empty", "no input"),
        (json.dumps({"inputs": ["a"] * 9}).encode(), 413, "Validation", "9 inputs, and limits.max_asks is 8"),
        (b'{"inputs": ["a", 5]}', 422, "Validation", "a string or a list of strings"),
        (b'{"inputs": {"a": 1}}', 422, "Validation", "a string or a list of strings"),
        (b'{"inputs": ["a", "\\u0001"]}', 422, "Validation", "U+0001"),
        (b'{"input": "a"}', 422, "Validation", "input"),
        (b'{"inputs": "a", "truncation_direction": "up"}', 422, "Validation", "up"),
        (b'{"inputs": "a", "dimensions": 1.5}', 422, "Validation", "dimensions"),
        (b'{"inputs": "a", "dimensions": 0}', 422, "Validation", "dimensions"),
        (b'{"inputs": ["a"', 400, "Validation", "not JSON"),
        (b'{"inputs": ["' + b"a" * 2**21 + b'"]}', 413, "Validation", "limits.max_body"),
    ],
    ids=[
        "none", "too many", "a number", "an object", "a control character", "another field", "an option", "a part",
        "nothing", "half", "large",
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_in_the_shape_of_the_door(
    server: Server, body: bytes, status: int, kind: str, words: str
) -> None:
    answer = server.post("/embed", body)
    assert (answer.status, answer.json()["error_type"]) == (status, kind)
    assert words in answer.json()["error"]
    assert set(answer.json()) == {"error", "error_type"}
    assert answer.headers["x-request-id"]


def test_what_is_not_asked_by_post_is_refused_in_that_shape_too(server: Server) -> None:
    answer = server.get("/embed")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
    assert answer.json()["error_type"] == "Validation"
    assert "error_type" not in server.get("/nowhere").json()


def test_a_text_that_fails_fails_the_call_and_the_others_with_it(server: Server) -> None:
    answer = server.post("/embed", {"inputs": ["a", "bad", "c"]})
    assert (answer.status, answer.json()["error_type"]) == (424, "Backend")
    assert server.post("/embed", {"inputs": ["a", "c"]}).status == 200


def test_wishes_of_the_native_door(server: Server) -> None:
    """A task is not known here; an Idempotency-Key names one input."""
    assert server.post("/embed", {"inputs": ["a"]}, {"prefer": "respond-async"}).status == 200
    for again in (None, "true"):
        answer = server.post("/embed", {"inputs": "once"}, {"idempotency-key": "k"})
        assert (answer.json(), answer.headers["idempotency-replayed"]) == ([[4.0, 0.5]], again)
    several = server.post("/embed", {"inputs": ["a", "b"]}, {"idempotency-key": "k"})
    assert (several.status, several.json()["error_type"]) == (422, "Validation")
    assert "Idempotency-Key" in several.json()["error"]


def test_a_call_is_let_in_as_a_whole_or_leaves_nothing_but_its_refusal(tmp_path: Path) -> None:
    config = f"{PATIENT}[limits]\nmax_queue = 10\n"
    with ThreadPoolExecutor(1) as pool, running(held(tmp_path), "--max-batch", "1", config=config) as server:
        first = pool.submit(server.post, "/embed", {"inputs": ["0"]})
        eventually(lambda: server.admin("/internal/workers").json()[0]["in_flight"] == 1)
        for number in (11, 200):
            refused = server.post("/embed", {"inputs": ["x"] * number})
            assert (refused.status, refused.json()["error_type"]) == (429, "Overloaded")
            assert int(refused.headers["retry-after"]) >= 1
        health = server.health()
        assert (health["queue_depth"], health["waiting_clients"]) == (0, 1)
        code = {"model": "batch", "code": "SERVICE_OVERLOADED"}
        assert server.metric("penstock_refused_requests_total", **code) == 2
        assert outcomes(server, "batch") == {}
        server.open()
        assert first.result().json() == ["0"]
        assert server.metric("penstock_batched_requests_total", model="batch") == 1
        assert server.post("/embed", {"inputs": ["x"] * 5}).status == 200


def test_a_client_that_leaves_takes_its_whole_call_along() -> None:
    with running(config=HOLDING) as server:
        with socket.create_connection(server.address, timeout=HUNG) as leaving:
            leaving.sendall(post(b'{"inputs": ["a", "b", "c"]}', path="/embed"))
            eventually(lambda: server.health()["queue_depth"] == 3)
        eventually(lambda: server.health()["queue_depth"] == 0)
        assert server.health()["waiting_clients"] == 0
        assert outcomes(server, "holding") == {"CLIENT_LEFT": 3}
        assert server.post("/embed", {"inputs": ["a", "b", "c", "d"]}).json() == ["a", "b", "c", "d"]


def test_calls_share_batches_with_others() -> None:
    with ThreadPoolExecutor(2) as pool, running(config=HOLDING) as server:
        call = pool.submit(server.post, "/embed", {"inputs": ["a", "b", "c"]})
        eventually(lambda: server.health()["queue_depth"] == 3)
        assert server.post("/v1/inference", {"input": "d"}).json()["metadata"]["batch_size"] == 4
        assert call.result().json() == ["a", "b", "c"]


def test_answers_from_the_cache_are_joined_with_others(app: Path) -> None:
    config = f"{PATIENT}[models.kept]\ntarget = '{app}:plain'\ndeterministic = true\n"
    with running(config=config) as server:
        for inputs in (["a", "bb"], ["a", "bb"], ["ccc", "a", "ccc"]):
            assert server.post("/embed", {"inputs": inputs}).json() == [[float(len(text))] for text in inputs]
        assert server.metric("penstock_batched_requests_total", model="kept") == 3


def test_a_large_body_of_many_texts_is_served() -> None:
    with running("sim:1ms", config=PATIENT) as server:
        texts = [f"{number} " + "x" * 400 for number in range(1000)]
        assert server.post("/embed", {"inputs": texts}).json() == texts


def test_where_no_model_is_meant_by_those_who_name_none_there_is_no_such_door() -> None:
    several = "[models.a]\ntarget = 'sim:1ms'\n[models.b]\ntarget = 'sim:1ms'\n"
    with running(config=PATIENT + several) as server:
        assert "/embed" not in server.get("/openapi.json").json()["paths"]
        answer = server.post("/embed", {"inputs": "a"})
        assert (answer.status, answer.json()["error_type"]) == (422, "Validation")


def test_the_document_says_how_texts_are_embedded(server: Server) -> None:
    document = server.get("/openapi.json").json()
    operation = document["paths"]["/embed"]["post"]
    assert {"200", "413", "422", "424", "429"} <= set(operation["responses"])
    several = document["components"]["schemas"]["EmbedRequest"]["properties"]["inputs"]["anyOf"][1]
    assert (several["minItems"], several["description"]) == (1, "At most 8.")


def test_where_keys_are_asked_for_strangers_are_refused_in_that_shape_and_each_text_counts(
    tmp_path: Path,
) -> None:
    key, record = make_key("acme", "paid", time.time())
    asyncio.run(KeysFile(tmp_path / "keys.json").add(record))
    config = f"""{PATIENT}
[auth]
mode = "keys"
keys_file = "{tmp_path}/keys.json"
[tiers]
default = "paid"
[tiers.levels.paid]
rank = 0
requests_per_minute = 5
"""
    with running("sim:1ms", config=config) as server:
        stranger = server.post("/embed", {"inputs": ["a"]})
        assert (stranger.status, stranger.json()["error_type"]) == (401, "Validation")
        assert stranger.headers["www-authenticate"] == "Bearer"
        known = {"authorization": f"Bearer {key}"}
        first = server.post("/embed", {"inputs": ["a", "b", "c"]}, known)
        assert (first.status, first.headers["ratelimit-remaining"]) == (200, "2")
        over = server.post("/embed", {"inputs": ["a", "b", "c"]}, known)
        assert (over.status, over.json()["error_type"]) == (429, "Overloaded")
        assert (over.headers["ratelimit-limit"], int(over.headers["retry-after"]) > 1) == ("5", True)
        assert server.post("/embed", {"inputs": ["a", "b"]}, known).status == 200  # nothing of it was counted
        document = server.get("/openapi.json").json()
        refused = document["paths"]["/embed"]["post"]["responses"]["401"]
        assert refused["content"]["application/json"]["schema"]["$ref"].endswith("/TeiError")
