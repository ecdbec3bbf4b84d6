"""What people's functions return and take, as their clients see it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from server import PATIENT, Answer, Server, eventually, running

APP = """
import os
from penstock import Output

class Model:
    def __init__(self):
        self.calls = []

    def __call__(self, inputs, *, temperature=1.0):
        self.calls.append(inputs)
        return [self.one(value, temperature) for value in inputs]

    def one(self, value, temperature):
        match value:
            case "nan":
                return [1.0, float("nan")]
            case "noted":
                return Output({"text": "noted"}, tokens_used=17)
            case "temperature":
                return temperature
            case "surroundings":
                return [os.environ["PENSTOCK_SLOT"], os.environ["CUDA_VISIBLE_DEVICES"], self.calls[:-1]]
        return value

    def close(self):
        open("closed", "w").close()


def plain(inputs):
    return inputs
"""

CONFIG = f"""{PATIENT}
[models.model]
target = "{{app}}:Model"
policy = "window"
max_wait = "30s"  # so that a batch goes when it is full, and its members are known
max_batch = 4
[models.kept]
target = "{{app}}:Model"
deterministic = true
[models.plain]
target = "{{app}}:plain"
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("functions") / "app.py"
    file.write_text(APP)
    return file


@pytest.fixture(scope="module")
def server(app: Path) -> Iterator[Server]:
    with running(config=CONFIG.format(app=app)) as server:
        yield server


def ask(server: Server, value: object, model: str = "kept", **more: Any) -> Answer:
    return server.post("/v1/inference", {"input": value, "model": model, **more})


def test_an_output_that_json_cannot_say_fails_its_own_request_and_its_neighbours_are_served(
    server: Server,
) -> None:
    values = ["text", "nan", 1.5, {"a": [None]}]
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda value: ask(server, value, "model"), values))
    assert [answer.status for answer in answers] == [200, 502, 200, 200]
    good = [answer.json() for answer in answers if answer.status == 200]
    assert [said["output"] for said in good] == ["text", 1.5, {"a": [None]}]
    assert {said["metadata"]["batch_size"] for said in good} == {4}
    bad = answers[1].json()
    assert bad["error"] == "BACKEND_FAILED"
    assert bad["message"] == (
        "Model returned NaN for this input, which JSON cannot say: return None or a finite number in its place"
    )
    assert server.metric("penstock_retried_batches_total", model="model") == 0
    [letter] = server.admin("/internal/dlq").json()
    assert (letter["request_id"], letter["attempts"]) == (bad["request_id"], 1)


def test_what_a_function_says_of_its_tokens_is_in_the_metadata_also_of_a_cached_answer(
    server: Server,
) -> None:
    first, again = (ask(server, "noted").json() for _ in range(2))
    assert first["output"] == again["output"] == {"text": "noted"}
    assert first["metadata"]["tokens_used"] == again["metadata"]["tokens_used"] == 17
    assert (first["metadata"]["cached"], again["metadata"]["cached"]) == (False, True)
    assert "tokens_used" not in ask(server, "plain").json()["metadata"]


def test_it_is_in_the_result_of_a_task_and_in_a_replayed_answer(server: Server) -> None:
    body = {"input": "noted", "model": "kept"}
    task = server.post("/v1/inference", body, {"prefer": "respond-async"}).json()["task_id"]
    done = server.get(f"/v1/result/{task}?wait_ms=30000").json()
    assert (done["output"], done["metadata"]) == ({"text": "noted"}, {"tokens_used": 17})
    keyed = [server.post("/v1/inference", body, {"idempotency-key": "k"}) for _ in range(2)]
    assert keyed[1].headers["idempotency-replayed"] == "true"
    assert [answer.json()["metadata"]["tokens_used"] for answer in keyed] == [17, 17]
    plain = server.post("/v1/inference", {**body, "input": "plain"}, {"prefer": "respond-async"}).json()
    assert "metadata" not in server.get(f"/v1/result/{plain['task_id']}?wait_ms=30000").json()


def test_parameters_reach_the_function_and_unknown_ones_are_refused_by_name(server: Server) -> None:
    assert ask(server, "temperature", parameters={"temperature": 0.5}).json()["output"] == 0.5
    assert ask(server, "temperature").json()["output"] == 1.0
    refused = ask(server, "temperature", parameters={"temprature": 0.5})
    assert refused.status == 422
    assert (
        refused.json()["message"] == "the model 'kept' takes no parameter 'temprature'; it takes temperature"
    )
    assert ask(server, "a", "plain", parameters={"temperature": 0.5}).status == 422


def test_the_document_offers_the_parameters_that_each_model_takes(server: Server) -> None:
    schemas = server.get("/openapi.json").json()["components"]["schemas"]
    offered = {
        tuple(kind["properties"]["model"]["enum"]): kind["properties"].get("parameters")
        for kind in schemas["InferenceRequest"]["anyOf"]
    }
    taken = offered[("model", "kept")]
    assert taken["properties"] == {"temperature": {}}
    assert taken["additionalProperties"] is False
    assert offered[("plain",)] is None
    metadata = schemas["InferenceAnswer"]["properties"]["metadata"]
    assert "tokens_used" in metadata["properties"]
    assert "tokens_used" not in metadata["required"]


def test_a_model_on_several_gpus_has_a_worker_for_each_and_is_warmed_up_and_closed(app: Path) -> None:
    given = ("--warmup", "first", "--warmup", '{"a": 1}')
    options = ("--gpus", "5,7", *given, "--max-wait", "1ms", "--max-batch", "4")
    with running(f"{app}:Model", *options, config=PATIENT) as server:
        assert len(server.admin("/internal/workers").json()) == 2
        seen = set()

        def both() -> bool:
            slot, device, before = server.post("/v1/inference", {"input": "surroundings"}).json()["output"]
            assert {len(each) for each in before} == {1, 2, 4}
            assert ["first", {"a": 1}, "first", {"a": 1}] in before
            seen.add((slot, device))
            return seen == {("0", "5"), ("1", "7")}

        eventually(both)
        assert server.stop() == 0
        assert (server.directory / "closed").exists()
