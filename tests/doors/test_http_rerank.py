"""`/v1/rerank` and `/v2/rerank`, as clients of Cohere, Jina and vLLM know them."""

import asyncio
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from penstock.adapters.api_keys.file import KeysFile
from penstock.auth.keys import make_key
from server import PATIENT, Server, eventually, held, running

# The score is the part of the query's words that the document has.
APP = """
from penstock import Output

def part(pair):
    query, document = (set(text.split()) for text in pair)
    if "bad" in document:
        raise ValueError("a bad document")
    return len(query & document) / len(query)

def scores(pairs):
    return [Output(part(pair), tokens_used=3) for pair in pairs]

def told(pairs):
    return [{"score": part(pair), "label": "yes", "said": pair} for pair in pairs]

def options(pairs, max_tokens_per_doc=0, truncate_prompt_tokens=0, use_activation=True):
    told = 100 * max_tokens_per_doc + 10 * truncate_prompt_tokens + use_activation
    return [[told] for pair in pairs]

def vectors(pairs):
    return [[0.5, 0.5] for pair in pairs]

def text(texts):
    return texts
"""
CONFIG = """
[limits]
max_asks = 8
max_body = "64KiB"
[retries]
attempts = 1
[models.scores]
target = "{app}:scores"
max_batch = 4
default = true
[models.told]
target = "{app}:told"
[models.options]
target = "{app}:options"
[models.vectors]
target = "{app}:vectors"
[models.text]
target = "{app}:text"
input = "text"
"""
QUERY = "a good day"
DOCUMENTS = ["what a day", "a good day", "no", "day"]
PATHS = pytest.mark.parametrize("path", ["/v1/rerank", "/v2/rerank"])


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("rerank") / "app.py"
    file.write_text(APP)
    return file


@pytest.fixture(scope="module")
def server(app: Path) -> Iterator[Server]:
    with running(config=PATIENT + CONFIG.format(app=app)) as server:
        yield server


def asked(**more: object) -> dict[str, object]:
    return {"query": QUERY, "documents": DOCUMENTS, **more}


def ranked(said: Any) -> list[tuple[int, float]]:
    return [(result["index"], result["relevance_score"]) for result in said["results"]]


@PATHS
def test_documents_are_ranked_the_best_first(server: Server, path: str) -> None:
    answer = server.post(path, asked(), {"x-request-id": "mine"})
    assert (answer.status, answer.headers["x-request-id"]) == (200, "mine")
    said = answer.json()
    assert ranked(said) == [(1, 1.0), (0, 2 / 3), (3, 1 / 3), (2, 0.0)]
    assert (said["id"], said["model"]) == ("rerank-mine", "scores")
    assert said["usage"] == {"prompt_tokens": 12, "total_tokens": 12}
    assert said["meta"] == {"api_version": {"version": path[2]}, "tokens": {"input_tokens": 12}}


@PATHS
@pytest.mark.parametrize(("top_n", "results"), [(2, 2), (1.0, 1), (9, 4), (0, 4), (None, 4)])
def test_top_n_is_the_number_of_results(server: Server, path: str, top_n: float | None, results: int) -> None:
    assert len(server.post(path, asked(top_n=top_n)).json()["results"]) == results


@pytest.mark.parametrize(
    ("path", "more", "there"),
    [
        ("/v1/rerank", {}, True),
        ("/v1/rerank", {"return_documents": False}, False),
        ("/v2/rerank", {}, False),
        ("/v2/rerank", {"return_documents": True}, True),
    ],
)
def test_results_come_with_their_documents_where_the_clients_expect_them(
    server: Server, path: str, more: dict[str, object], there: bool
) -> None:
    documents = ['größer \\ "day"', {"text": "a good day"}]
    results = server.post(path, {"query": QUERY, "documents": documents, **more}).json()["results"]
    texts = [result.get("document") for result in results]
    assert texts == ([{"text": "a good day"}, {"text": 'größer \\ "day"'}] if there else [None, None])


def test_a_model_gets_each_pair_as_a_list_of_two_texts(server: Server) -> None:
    said = server.post("/v1/inference", {"input": [QUERY, "day"], "model": "told"}).json()
    assert said["output"]["said"] == [QUERY, "day"]
    assert ranked(server.post("/v1/rerank", asked(model="told")).json())[0] == (1, 1.0)


def test_options_go_on_to_the_model_unless_they_say_what_is_usual(server: Server) -> None:
    usual = {
        "use_activation": True, "rank_fields": ["text"], "max_chunks_per_doc": None, "max_tokens_per_doc": None,
        "user": "somebody", "service_tier": "x", "priority": 0,
    }  # fmt: skip
    assert ranked(server.post("/v1/rerank", asked(**usual)).json())[0] == (1, 1.0)
    unusual = {"max_tokens_per_doc": 2.0, "truncate_prompt_tokens": -1, "use_activation": False}
    answer = server.post("/v2/rerank", {"query": "q", "documents": ["d"], "model": "options", **unusual})
    assert ranked(answer.json()) == [(0, 190.0)]
    refused = server.post("/v2/rerank", asked(max_tokens_per_doc=2))
    assert (refused.status, "takes no parameter" in refused.json()["message"]) == (400, True)


@PATHS
@pytest.mark.parametrize(
    ("more", "status", "code", "parameter"),
    [
        ({"documents": []}, 400, "no_input", None),
        ({"documents": ["a"] * 9}, 413, "too_large", None),
        ({"documents": ["a", 5]}, 400, "invalid_value", "documents"),
        ({"documents": ["a", {"title": "b"}]}, 400, "invalid_value", "documents"),
        ({"documents": ["a", {"text": "b", "title": "c"}]}, 400, "invalid_value", "documents"),
        ({"documents": [{"text": 5}]}, 400, "invalid_value", "documents"),
        ({"documents": "a"}, 400, "invalid_value", "documents"),
        ({"documents": ["a", "\u0001"]}, 400, "invalid_value", "input"),
        ({"query": "\u0001"}, 400, "invalid_value", "input"),
        ({"query": ["a"]}, 400, "invalid_value", "query"),
        ({"top_n": -1}, 400, "invalid_value", "top_n"),
        ({"top_n": 1.5}, 400, "invalid_value", "top_n"),
        ({"rank_fields": ["title"]}, 400, "invalid_value", "rank_fields"),
        ({"max_tokens_per_doc": 0}, 400, "invalid_value", "max_tokens_per_doc"),
        ({"user": ""}, 400, "invalid_value", "user"),
        ({"texts": ["a"]}, 400, "invalid_value", "texts"),
        ({"model": "rerank-v3.5"}, 404, "model_not_found", "model"),
    ],
)  # fmt: skip
def test_what_cannot_be_ranked_is_refused_where_each_client_looks(
    server: Server, path: str, more: dict[str, Any], status: int, code: str, parameter: str | None
) -> None:
    answer = server.post(path, asked(**more))
    said = answer.json()
    assert (answer.status, said["error"]["code"], said["error"]["param"]) == (status, code, parameter)
    assert said["message"] == said["detail"] == said["error"]["message"]
    assert answer.headers["x-request-id"]


def test_a_model_that_takes_text_alone_is_refused_and_the_setting_named(server: Server) -> None:
    answer = server.post("/v1/rerank", asked(model="text"))
    assert (answer.status, answer.json()["error"]["param"]) == (400, "query")
    assert 'its setting input must be "json"' in answer.json()["message"]


def test_a_model_whose_outputs_are_no_scores_is_told_so(server: Server) -> None:
    for documents in (["a"], ["a", "b"]):
        answer = server.post("/v1/rerank", {"query": "q", "documents": documents, "model": "vectors"})
        assert (answer.status, answer.json()["error"]["type"]) == (400, "invalid_request_error")
        assert "the model 'vectors' gives no score" in answer.json()["message"]


def test_a_document_that_fails_fails_the_call(server: Server) -> None:
    answer = server.post("/v1/rerank", asked(documents=["a", "bad"]))
    assert (answer.status, answer.json()["error"]["type"]) == (502, "server_error")
    assert server.get("/v1/rerank").json()["error"]["code"] == "method_not_allowed"


def test_a_query_that_is_too_long_to_stand_in_every_pair_is_refused(server: Server) -> None:
    said = {"query": "q" * 60_000, "documents": ["d"] * 8}
    answer = server.post("/v1/rerank", said)
    assert (answer.status, answer.json()["error"]["code"]) == (413, "too_large")
    assert "4 times limits.max_body is 262144" in answer.json()["message"]
    assert server.post("/v1/rerank", {**said, "documents": ["d"] * 4}).status == 200


def test_more_documents_than_fit_into_a_batch_are_split_and_joined(server: Server) -> None:
    documents = [" ".join(["a", "good", "day"][: n % 4]) for n in range(8)]
    said = server.post("/v1/rerank", asked(documents=documents)).json()
    assert [index for index, _ in ranked(said)] == [3, 7, 2, 6, 1, 5, 0, 4]


def test_pairs_share_batches_with_others(tmp_path: Path, app: Path) -> None:
    config = (
        f"{PATIENT}[models.m]\ntarget = '{app}:scores'\npolicy = 'window'\nmax_batch = 4\nmax_wait = '60s'\n"
    )
    with ThreadPoolExecutor(1) as pool, running(config=config) as server:
        call = pool.submit(server.post, "/v2/rerank", asked(documents=["a", "day", "no"]))
        eventually(lambda: server.health()["queue_depth"] == 3)
        other = server.post("/v1/inference", {"input": [QUERY, "a good"]}).json()
        assert other["metadata"]["batch_size"] == 4
        assert [index for index, _ in ranked(call.result().json())] == [0, 1, 2]


def test_a_call_is_let_in_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    config = f"{PATIENT}[limits]\nmax_queue = 10\n"
    with ThreadPoolExecutor(1) as pool, running(held(tmp_path), "--max-batch", "1", config=config) as server:
        first = pool.submit(server.post, "/embed", {"inputs": ["0"]})
        eventually(lambda: server.admin("/internal/workers").json()[0]["in_flight"] == 1)
        refused = server.post("/v1/rerank", {"query": "q", "documents": ["x"] * 11})
        assert (refused.status, refused.json()["error"]["code"]) == (503, "server_overloaded")
        assert int(refused.headers["retry-after-ms"]) >= 1
        assert server.health()["queue_depth"] == 0
        server.open()
        assert first.result().status == 200


def test_a_large_call_is_served(app: Path) -> None:
    with running(f"{app}:scores", config=PATIENT) as server:
        documents = [{"text": f"{number} " + "x" * 700} for number in range(999)] + ["a good day"]
        answer = server.post("/v2/rerank", asked(documents=documents, top_n=1))
        assert ranked(answer.json()) == [(999, 1.0)]


def test_a_door_that_is_closed_is_not_there(app: Path) -> None:
    config = f"{PATIENT}[doors]\nrerank = false\n"
    with running(f"{app}:scores", config=config) as server:
        assert server.post("/v1/rerank", asked()).status == server.post("/v2/rerank", asked()).status == 404
        assert server.post("/rerank", {"query": QUERY, "texts": DOCUMENTS}).status == 200


def test_the_document_offers_only_models_that_take_pairs(server: Server) -> None:
    document = server.get("/openapi.json").json()
    for path in ("/v1/rerank", "/v2/rerank"):
        assert {"200", "400", "413", "502"} <= set(document["paths"][path]["post"]["responses"])
    schemas = document["components"]["schemas"]
    assert "text" not in json.dumps(schemas["Ranked"]["properties"]["model"])
    with running("sim:1ms", "--input", "text", config=PATIENT) as other:
        assert "/v1/rerank" not in other.get("/openapi.json").json()["paths"]


def test_each_document_counts_against_the_quota_of_its_sender(tmp_path: Path, app: Path) -> None:
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
    with running(f"{app}:scores", config=config) as server:
        stranger = server.post("/v2/rerank", asked())
        assert (stranger.status, stranger.json()["error"]["code"]) == (401, "invalid_api_key")
        known = {"authorization": f"Bearer {key}"}
        assert server.post("/v2/rerank", asked(), known).headers["ratelimit-remaining"] == "1"
        over = server.post("/v2/rerank", asked(), known)
        assert (over.status, over.json()["error"]["code"]) == (429, "rate_limit_exceeded")
