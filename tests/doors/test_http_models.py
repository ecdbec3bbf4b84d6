"""Several models in one server: which is meant, how each responds, and what a client can learn of them."""

from collections.abc import Iterator

import pytest

from server import PATIENT, Server, call, running

MODELS = f"""{PATIENT}
[models.plain]
target = "sim:1ms"
input = "text"
output = "text"
default = true
max_batch = 7
[models.later]
target = "sim:1ms"
input = "text"
respond = "async"
[models.any]
target = "sim:1ms"
input = "json"
output = "json"
"""
ALL_LATER = f"""{PATIENT}
[api]
respond = "async"
[models.later]
target = "sim:1ms"
[models.plain]
target = "sim:1ms"
respond = "sync"
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(config=MODELS) as server:
        yield server


@pytest.fixture(scope="module")
def all_later() -> Iterator[Server]:
    with running(config=ALL_LATER) as server:
        yield server


def test_who_names_no_model_means_the_one_marked_default(server: Server) -> None:
    assert server.post("/v1/inference", {"input": "a"}).json()["model"] == "plain"
    assert server.post("/api/inference", {"input": "a"}).json()["output"] == "a"
    assert server.post("/v1/inference", {"input": [1], "model": "any"}).json()["output"] == [1]


def test_without_a_default_the_refusal_names_the_models(all_later: Server) -> None:
    answer = all_later.post("/v1/inference", {"input": "a"})
    assert answer.status == 422
    assert "later, plain" in answer.json()["message"]
    assert "default = true" in answer.json()["message"]


@pytest.mark.parametrize("headers", [{}, {"x-request-id": "named"}, {"idempotency-key": "once"}])
def test_a_model_that_responds_later_gives_a_task(server: Server, headers: dict[str, str]) -> None:
    for _ in range(3):  # a head that is known by now is no other
        answer = server.post("/v1/inference", {"input": "a", "model": "later"}, headers)
        if "x-request-id" in headers and answer.status == 409:
            break  # the id is taken by the first
        assert answer.status == 202, answer.body
        task = answer.json()["task_id"]
        assert answer.headers["location"] == f"/v1/result/{task}"
        assert "preference-applied" not in answer.headers
        result = server.get(f"/v1/result/{task}?wait_ms=50000").json()
        assert (result["status"], result["output"]) == ("SUCCESS", "a")


def test_a_client_that_says_wait_is_answered_on_its_connection(server: Server) -> None:
    body = {"input": "a", "model": "later"}
    for prefer in ("wait", "wait=5", "handling=lenient, Wait=10"):
        answer = server.post("/v1/inference", body, {"prefer": prefer})
        assert (answer.status, answer.json()["output"]) == (200, "a")
    assert server.post("/v1/inference", body, {"prefer": "respond-async, wait=5"}).status == 202
    assert server.post("/v1/inference", body, {"prefer": "handling=strict"}).status == 202


def test_a_mistake_is_told_at_once_where_the_model_responds_later(server: Server) -> None:
    wrong = server.post("/v1/inference", {"input": 5, "model": "later"}, {"x-request-id": "mine"})
    assert (wrong.status, wrong.json()["request_id"]) == (422, "mine")


def test_all_models_respond_later_but_those_that_say_otherwise(all_later: Server) -> None:
    assert all_later.post("/v1/inference", {"input": "a", "model": "later"}).status == 202
    assert all_later.post("/v1/inference", {"input": "a", "model": "plain"}).status == 200


def test_the_short_form_waits_unless_its_client_says_otherwise() -> None:
    config = f'{PATIENT}\n[api]\nrespond = "async"\n[models.m]\ntarget = "sim:1ms"'
    with running(config=config) as server:
        assert server.post("/v1/inference", {"input": "a"}).status == 202
        assert server.post("/api/inference", {"input": "a"}).json()["output"] == "a"
        assert server.post("/api/inference", {"input": "a"}, {"prefer": "respond-async"}).status == 202
        described = server.get("/openapi.json").json()["paths"]["/v1/inference"]["post"]["description"]
        assert described.startswith("A request becomes a task: 202")


def test_the_models_are_listed_as_clients_of_others_expect_it(server: Server) -> None:
    said = server.get("/v1/models").json()
    assert said["object"] == "list"
    assert [model["id"] for model in said["data"]] == ["any", "later", "plain"]
    anything, later, plain = said["data"]
    assert isinstance(plain.pop("created"), int)
    assert plain == {
        "id": "plain", "object": "model", "owned_by": "penstock", "input": "text", "output": "text",
        "max_batch": 7, "default": True, "respond": "sync", "parameters": True, "ready": True,
    }  # fmt: skip
    assert (later["respond"], later["default"]) == ("async", False)
    assert (anything["input"], anything["output"]) == ("json", "json")


def test_the_document_says_which_model_is_meant_and_which_respond_later(server: Server) -> None:
    document = server.get("/openapi.json").json()
    assert "`later` becomes a task" in document["paths"]["/v1/inference"]["post"]["description"]
    assert "/api/inference" in document["paths"]
    schemas = document["components"]["schemas"]["InferenceRequest"]["anyOf"]
    by_models = {tuple(each["properties"]["model"]["enum"]): each["required"] for each in schemas}
    assert by_models == {("any",): ["input", "model"], ("plain", "later", None): ["input"]}
    assert document["components"]["schemas"]["ShortRequest"]["properties"]["input"]["type"] == "string"


def test_the_data_port_says_whether_it_serves(server: Server) -> None:
    answer = server.get("/health")
    assert (answer.status, answer.json()) == (200, {"status": "ok"})
    assert call(server.url, "HEAD", "/health").status == 200
