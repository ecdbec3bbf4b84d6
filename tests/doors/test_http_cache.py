"""Over HTTP: what is asked twice runs once, and whose answer it is stays its own."""

import json
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from server import HUNG, PATIENT, PENSTOCK, Answer, Server, eventually, held, running

# A function that counts: what it says of an input changes each time it is run.
COUNTING = """
from collections import Counter
ran = Counter()
def batch(inputs):
    for text in inputs:
        ran[text] += 1
        if text == "bad":
            raise ValueError("no")
    return [f"{text} {ran[text]}" for text in inputs]
"""
CONFIG = f"""{PATIENT}
[tiers]
default = "paid"
[tiers.levels.paid]
rank = 0
requests_per_minute = 1000
[models.counting]
target = "counting.py:batch"
deterministic = true
version = "7"
[models.common]
target = "counting.py:batch"
deterministic = true
cache = "shared"
[models.collapsing]
target = "held.py:batch"
deterministic = true
cache = "off"
[models.plain]
target = "counting.py:batch"
[ledger]
url = "sqlite:///ledger.db"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("functions")
    (folder / "counting.py").write_text(COUNTING)
    config = CONFIG.replace("counting.py", f"{folder}/counting.py").replace("held.py:batch", held(folder))
    with running(config=config) as server:
        yield server


def ask(server: Server, model: str, text: str, client: str | None = None, **headers: str) -> Answer:
    body = {"input": text, "model": model, **({"client_id": client} if client else {})}
    return server.post(
        "/v1/inference", body, {name.replace("_", "-"): value for name, value in headers.items()}
    )


def test_the_second_answer_comes_from_the_cache_and_says_so(server: Server) -> None:
    first = ask(server, "counting", "a", x_request_id="one")
    again = ask(server, "counting", "a", x_request_id="two")
    assert (first.json()["output"], first.json()["metadata"]["cached"]) == ("a 1", False)
    said = again.json()
    assert (again.status, said["output"], said["request_id"]) == (200, "a 1", "two")
    assert said["metadata"] == {
        "queue_ms": 0.0,
        "inference_ms": 0.0,
        "batch_size": 0,
        "model_version": "7",
        "cached": True,
    }
    assert again.headers["server-timing"] == "queue;dur=0.000, infer;dur=0.000"
    assert int(again.headers["ratelimit-remaining"]) < int(first.headers["ratelimit-remaining"])
    assert server.metric("penstock_cache_requests_total", model="counting", result="hit") >= 1


def test_the_short_form_and_tasks_have_it_from_the_cache_too(server: Server) -> None:
    assert ask(server, "counting", "t").json()["output"] == "t 1"
    task = ask(server, "counting", "t", prefer="respond-async")
    result = server.get(task.headers["location"] + "?wait_ms=20000").json()
    assert (result["status"], result["output"]) == ("SUCCESS", "t 1")
    other = ask(server, "counting", "u", prefer="respond-async")
    assert server.get(other.headers["location"] + "?wait_ms=20000").json()["output"] == "u 1"
    assert ask(server, "counting", "u").json()["output"] == "u 1"


def test_another_tenant_has_its_own_answer(server: Server) -> None:
    assert ask(server, "counting", "b", "acme").json()["output"] == "b 1"
    others = ask(server, "counting", "b", "beta").json()
    assert (others["output"], others["metadata"]["cached"]) == ("b 2", False)
    assert ask(server, "counting", "b", "acme").json()["output"] == "b 1"
    assert ask(server, "counting", "b", "beta").json()["output"] == "b 2"


def test_a_shared_answer_does_not_tell_another_tenant_that_it_was_there(server: Server) -> None:
    made = ask(server, "common", "c", "acme").json()
    own, others = (ask(server, "common", "c", tenant).json() for tenant in ("acme", "beta"))
    assert made["output"] == own["output"] == others["output"] == "c 1"
    assert own["metadata"]["cached"] is True
    assert others["metadata"]["cached"] is False
    assert (others["metadata"]["batch_size"], made["metadata"]["batch_size"]) == (1, 1)


def test_a_failure_is_not_kept(server: Server) -> None:
    for _ in range(2):
        assert ask(server, "counting", "bad").status == 502
    assert server.metric("penstock_cache_requests_total", model="counting", result="miss") >= 2


def test_a_model_that_is_not_deterministic_runs_everything(server: Server) -> None:
    assert [ask(server, "plain", "d").json()["output"] for _ in range(2)] == ["d 1", "d 2"]


def test_identical_requests_at_once_are_one_execution_and_each_asker_has_its_answer(server: Server) -> None:
    before = server.metric("penstock_batched_requests_total", model="collapsing")
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask, server, "collapsing", "same", x_request_id=f"r{n}") for n in range(8)]
        eventually(lambda: server.health()["waiting_clients"] == 8)
        server.open()
        answers = [each.result() for each in asked]
    assert [answer.json()["request_id"] for answer in answers] == [f"r{n}" for n in range(8)]
    assert {answer.json()["output"] for answer in answers} == {"same"}
    assert server.metric("penstock_batched_requests_total", model="collapsing") == before + 1
    assert server.metric("penstock_collapsed_requests_total", model="collapsing") == 7
    assert not any(answer.json()["metadata"]["cached"] for answer in answers)
    assert ask(server, "collapsing", "same").json()["metadata"]["cached"] is False


def test_every_request_has_its_row_in_the_ledger_cached_or_collapsed(server: Server) -> None:
    for number in range(3):
        ask(server, "counting", "row", x_request_id=f"row-{number}")

    def rows() -> list[str]:
        done = subprocess.run(
            [str(PENSTOCK), "requests", "--ledger", "sqlite:///ledger.db", "--json"],
            cwd=server.directory, capture_output=True, text=True, check=False, timeout=HUNG,
        )  # fmt: skip
        found = [json.loads(line) for line in done.stdout.splitlines()]
        return sorted(row["request_id"] for row in found if row["request_id"].startswith("row-"))

    eventually(lambda: rows() == ["row-0", "row-1", "row-2"])


def test_metrics_of_the_cache_have_closed_labels(server: Server) -> None:
    text = server.admin("/metrics").body.decode()
    results = {line.split('result="')[1].split('"')[0] for line in text.splitlines() if 'result="' in line}
    assert results == {"hit", "miss", "bypass"}
    assert "penstock_cache_evicted_total" in text
