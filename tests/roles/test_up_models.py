"""Over Redis: what a worker announces of its models holds at every gateway, and a missing worker is told of."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from up_kit import Up, up

from server import PATIENT, Answer, eventually, running

MODELS = f"""{PATIENT}
[models.plain]
target = "sim:1ms"
default = true
[models.later]
target = "sim:1ms"
respond = "async"
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    file = tmp_path_factory.mktemp("models") / "models.toml"
    file.write_text(MODELS)
    with up(None, "--config", str(file), workers=2) as running:
        yield running
        assert running.end() == 0, running.lines


def ask(whole: Up, body: object, **headers: str) -> Answer:
    return whole.ask("gateway-1", "POST", "/v1/inference", json.dumps(body).encode(), **headers)


def health(whole: Up, name: str = "gateway-1") -> dict[str, Any]:
    said: dict[str, Any] = whole.admin_of(name, "/internal/health").json()
    return said


def test_the_default_model_and_how_each_responds_are_as_the_worker_says(whole: Up) -> None:
    assert ask(whole, {"input": "a"}).json()["model"] == "plain"
    later = ask(whole, {"input": "b", "model": "later"})
    assert later.status == 202, later.body
    task = whole.ask("gateway-1", "GET", f"/v1/result/{later.json()['task_id']}?wait_ms=20000").json()
    assert (task["status"], task["output"]) == ("SUCCESS", "b")
    assert ask(whole, {"input": "b", "model": "later"}, prefer="wait").json()["output"] == "b"
    assert whole.ask("gateway-1", "POST", "/api/inference", b'{"input": "a"}').json()["output"] == "a"


def test_a_client_learns_of_the_models_and_whether_they_are_ready(whole: Up) -> None:
    later, plain = whole.ask("gateway-1", "GET", "/v1/models").json()["data"]
    assert (later["id"], later["respond"], later["default"], later["ready"]) == (
        "later",
        "async",
        False,
        True,
    )
    assert (plain["id"], plain["respond"], plain["default"], plain["ready"]) == ("plain", "sync", True, True)
    assert whole.ask("gateway-1", "GET", "/health").json() == {"status": "ok"}


def test_a_worker_that_went_without_a_word_makes_the_installation_degraded(whole: Up) -> None:
    names = ("gateway-1", "batcher-1", "worker-1")
    eventually(lambda: all(health(whole, name)["status"] == "healthy" for name in names))
    whole.part("worker-1").kill()
    eventually(lambda: health(whole)["status"] == "degraded")
    rows = whole.admin_of("gateway-1", "/internal/workers").json()
    missing = [row for row in rows if row["status"] == "offline"]
    assert {row["model"] for row in missing} == {"plain", "later"}
    assert all(row.keys() == rows[0].keys() for row in rows)
    assert ask(whole, {"input": "still served"}).status == 200


def test_embedded_and_over_redis_a_worker_has_the_same_fields(whole: Up) -> None:
    with running("sim:1ms") as server:
        [embedded] = server.admin("/internal/workers").json()
    for name in ("gateway-1", "batcher-1", "worker-2"):
        for row in whole.admin_of(name, "/internal/workers").json():
            assert row.keys() == embedded.keys(), name
