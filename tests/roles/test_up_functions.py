"""What a function says of single inputs, over Redis: failures, tokens, bytes, and which parameters it takes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from up_kit import Up, up

from redis_servers import VALKEY
from server import PATIENT, Answer, eventually

APP = """
from penstock import Output

def batch(inputs, temperature=1.0):
    return [float("nan") if value == "nan" else Output(value, tokens_used=17) for value in inputs]
"""

CONFIG = f"""{PATIENT}
[redis]
namespace = "functions"
[models.batch]
target = "{{app}}:batch"
deterministic = true
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("functions")


@pytest.fixture(scope="module")
def installed(redis_urls: dict[str, str], folder: Path) -> Iterator[Up]:
    (folder / "app.py").write_text(APP)
    (folder / "penstock.toml").write_text(CONFIG.format(app=folder / "app.py"))
    options = ("--config", str(folder / "penstock.toml"), "--redis", redis_urls[VALKEY])
    with up(f"{folder / 'app.py'}:batch", *options, gateways=2) as running:
        yield running


def ask(installed: Up, value: object, gateway: str = "gateway-1", prefer: str = "", **more: Any) -> Answer:
    headers = {"prefer": prefer} if prefer else {}
    body = json.dumps({"input": value, **more}).encode()
    return installed.ask(gateway, "POST", "/v1/inference", body, **headers)


def result(installed: Up, value: object) -> dict[str, Any]:
    task = ask(installed, value, prefer="respond-async").json()["task_id"]
    done: dict[str, Any] = installed.ask("gateway-1", "GET", f"/v1/result/{task}?wait_ms=30000").json()
    return done


def test_an_output_that_json_cannot_say_is_a_failure_of_its_request_and_of_its_task(installed: Up) -> None:
    refused = ask(installed, "nan")
    assert (refused.status, refused.json()["error"]) == (502, "BACKEND_FAILED")
    assert refused.json()["message"].startswith("batch returned NaN for this input, which JSON cannot say")
    failed = result(installed, "nan")
    assert (failed["status"], failed["error"]["message"]) == ("FAILED", refused.json()["message"])


def test_tokens_are_told_by_every_gateway_in_answers_results_and_cached_answers(installed: Up) -> None:
    for gateway in ("gateway-1", "gateway-2", "gateway-1"):
        said = ask(installed, ["a"], gateway).json()
        assert (said["output"], said["metadata"]["tokens_used"]) == (["a"], 17)
    assert said["metadata"]["cached"]
    done = result(installed, ["b"])
    assert (done["output"], done["metadata"]) == (["b"], {"tokens_used": 17})


def test_parameters_that_the_function_does_not_take_are_refused_at_every_gateway(installed: Up) -> None:
    for gateway in ("gateway-1", "gateway-2"):
        # Which parameters it takes is announced when the function has been loaded, with a heartbeat.
        eventually(lambda: ask(installed, "a", gateway, parameters={"temprature": 1}).status == 422)  # noqa: B023
        assert ask(installed, "a", gateway, parameters={"temperature": 1}).status == 200


def test_a_function_that_was_mended_and_started_anew_says_which_parameters_it_takes_now(
    installed: Up, folder: Path
) -> None:
    def takes(name: str) -> bool:
        return all(
            ask(installed, name, gateway, parameters={name: 1}).status == 200
            for gateway in ("gateway-1", "gateway-2")
        )

    eventually(lambda: takes("temperature") and not takes("top_k"))
    (folder / "app.py").write_text(APP.replace("temperature=1.0", "temperature=1.0, top_k=5"))
    for child in installed.part("worker-1").children():
        child.kill()
    eventually(lambda: takes("top_k"))


def embed(installed: Up, inputs: list[str], gateway: str = "gateway-1") -> Answer:
    return installed.ask(gateway, "POST", "/embed", json.dumps({"inputs": inputs}).encode())


def test_a_call_of_several_texts_is_answered_in_their_order_or_with_the_first_failure(installed: Up) -> None:
    texts = [f"text {number}" for number in range(100)]
    assert embed(installed, texts).json() == texts
    assert embed(installed, [*texts[50:], "new", *texts[:50]], "gateway-2").json() == [
        *texts[50:], "new", *texts[:50]
    ]  # fmt: skip
    failed = embed(installed, ["a", "nan", "b", "c"])
    assert (failed.status, failed.json()["error_type"]) == (424, "Backend")
    assert "returned NaN for this input" in failed.json()["error"]
    assert embed(installed, ["a", "b"]).json() == ["a", "b"]


def test_bytes_go_to_the_function_and_come_back_through_every_gateway_task_and_cache(installed: Up) -> None:
    data = bytes(range(256)) * 1000
    octets = {"content_type": "application/octet-stream"}
    for gateway in ("gateway-1", "gateway-2"):
        answer = installed.ask(
            gateway, "POST", "/v1/inference", data, accept="application/octet-stream", **octets
        )
        assert (answer.status, answer.body) == (200, data)
    said = installed.ask("gateway-1", "POST", "/v1/inference", b"abc", **octets).json()
    assert (said["output"], said["metadata"]["tokens_used"]) == ("YWJj", 17)
    task = installed.ask(
        "gateway-1", "POST", "/v1/inference", b"task", prefer="respond-async", **octets
    ).json()
    done = installed.ask("gateway-2", "GET", f"/v1/result/{task['task_id']}?wait_ms=30000").json()
    assert (done["output"], done["metadata"]["output_encoding"]) == ("dGFzaw==", "base64")
    mixed = msgspec.msgpack.encode({"input": [b"x", {"a": 1}]})
    answer = installed.ask("gateway-2", "POST", "/v1/inference", mixed, content_type="application/msgpack")
    assert answer.json()["output"] == ["eA==", {"a": 1}]


def test_a_task_is_followed_at_any_gateway(installed: Up) -> None:
    task = ask(installed, ["followed"], prefer="respond-async").json()["task_id"]
    followed = installed.ask("gateway-2", "GET", f"/v1/result/{task}?stream=1")
    assert followed.headers["content-type"] == "text/event-stream"
    names = [line for line in followed.body.decode().splitlines() if line.startswith("event: ")]
    assert (names[-1], {*names[:-1]} <= {"event: status"}) == ("event: result", True)
    last = followed.body.decode().rpartition("data: ")[2]
    assert json.loads(last)["output"] == ["followed"]
