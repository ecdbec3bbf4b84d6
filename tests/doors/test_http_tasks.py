"""Ask now, fetch the answer later."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import pytest

from server import PATIENT, Answer, Server, eventually, held, running

# A batch goes when it holds two: until the test sends the second, the first waits.
PAIRS = f"""{PATIENT}
[models.pairs]
target = "sim:1ms"
policy = "window"
max_batch = 2
max_wait = "60s"
[limits]
max_long_poll = "50s"
"""
ASYNC = {"prefer": "respond-async"}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(config=PAIRS) as server:
        yield server


def make_task(server: Server, text: str = "a", **more: object) -> str:
    """A task that waits; its text is its lane, so that no other test releases it."""
    body = {"input": text, "parameters": {"lane": text}, **more}
    answer = server.post("/v1/inference", body, ASYNC)
    assert answer.status == 202
    task_id: str = answer.json()["task_id"]
    return task_id


def release(server: Server, text: str) -> Answer:
    """The second of the pair."""
    return server.post("/v1/inference", {"input": text, "parameters": {"lane": text}})


def test_the_id_of_one_task_tells_nothing_of_the_next(server: Server) -> None:
    """Nobody is asked who they are here: whoever knows an id can read the result."""
    first, second = (int(make_task(server, f"id-{n}"), 16) for n in range(2))
    assert (first ^ second).bit_count() >= 16


def test_a_task_is_accepted_with_its_location(server: Server) -> None:
    answer = server.post(
        "/v1/inference",
        {"input": "a", "parameters": {"lane": "location"}},
        {"prefer": "wait=5, Respond-Async", "x-request-id": "task:1+a=b@c"},
    )
    assert answer.status == 202
    assert answer.json() == {"task_id": "task:1+a=b@c", "status": "PENDING"}
    assert answer.headers["location"] == "/v1/result/task:1+a=b@c"
    assert answer.headers["preference-applied"] == "respond-async"
    assert server.get(answer.headers["location"]).json()["status"] == "PENDING"
    assert server.call("DELETE", answer.headers["location"]).json()["status"] == "CANCELLED"


def test_a_finished_task_gives_its_output_again_and_again(server: Server) -> None:
    task = make_task(server, "again")
    assert release(server, "again").status == 200
    for _ in range(2):
        answer = server.get(f"/v1/result/{task}?wait_ms=50000")
        assert answer.status == 200
        said = answer.json()
        assert set(said) == {"task_id", "status", "output", "timestamp"}
        assert (said["task_id"], said["status"], said["output"]) == (task, "SUCCESS", "again")
        assert datetime.fromisoformat(said["timestamp"]).utcoffset() is not None
        assert answer.headers["x-request-id"] == task


def test_a_long_poll_is_answered_when_the_task_is_over(server: Server) -> None:
    task = make_task(server, "poll")
    with ThreadPoolExecutor(3) as pool:
        polls = [pool.submit(server.get, f"/v1/result/{task}?wait_ms=50000") for _ in range(3)]
        release(server, "poll")
        assert {poll.result().json()["status"] for poll in polls} == {"SUCCESS"}


def test_a_long_poll_that_ends_first_tells_how_the_task_stands(server: Server) -> None:
    task = make_task(server, "unfinished")
    said = server.get(f"/v1/result/{task}?wait_ms=10").json()
    assert set(said) == {"task_id", "status", "timestamp"}
    assert said["status"] == "PENDING"
    release(server, "unfinished")


def test_a_task_on_its_worker_is_processing(tmp_path: Path) -> None:
    with running(held(tmp_path), config=PATIENT) as server:
        task = server.post("/v1/inference", {"input": "slow"}, ASYNC).json()["task_id"]
        eventually(lambda: server.get(f"/v1/result/{task}").json()["status"] == "PROCESSING")
        server.open()
        said = server.get(f"/v1/result/{task}?wait_ms=20000").json()
        assert (said["status"], said["output"]) == ("SUCCESS", "slow")


def test_what_failed_says_why() -> None:
    with running("sim:poison=POISON", config=PATIENT) as server:
        task = server.post("/v1/inference", {"input": "POISON"}, ASYNC).json()["task_id"]
        said = server.get(f"/v1/result/{task}?wait_ms=50000").json()
        assert said["status"] == "FAILED"
        assert "output" not in said
        assert said["error"]["error"] == "BACKEND_FAILED"
        assert said["error"]["message"]


def test_what_passed_its_deadline_has_expired() -> None:
    with running("sim:3s", "--processing-timeout", "20s") as server:
        task = server.post("/v1/inference", {"input": "a", "timeout_ms": 200}, ASYNC).json()["task_id"]
        said = server.get(f"/v1/result/{task}?wait_ms=50000").json()
        assert (said["status"], said["error"]["error"]) == ("EXPIRED", "DEADLINE_EXCEEDED")


def test_to_anyone_but_its_tenant_a_task_does_not_exist(server: Server) -> None:
    task = make_task(server, "private", client_id="acme")
    path = f"/v1/result/{task}"
    for query in ("", "?client_id=", "?client_id=other", "?client_id=ACME"):
        for verb in ("GET", "DELETE"):
            answer = server.call(verb, path + query)
            assert answer.status == 404
            assert answer.json()["error"] == "NOT_FOUND"
    missing = server.get("/v1/result/missing?client_id=other").json()["message"]
    other = server.get(f"{path}?client_id=other").json()["message"]
    assert missing.replace("missing", task) == other, "the two must not be told apart"
    assert server.get(f"{path}?client_id=acme").json()["status"] == "PENDING"
    assert server.call("DELETE", f"{path}?client_id=acme").json()["status"] == "CANCELLED"


def test_a_cancelled_task_never_goes_to_a_worker(server: Server) -> None:
    batched = server.metric("penstock_batched_requests_total", model="pairs")
    task = make_task(server, "cancelled")
    answer = server.call("DELETE", f"/v1/result/{task}")
    assert answer.status == 200
    said = answer.json()
    assert (said["status"], said["error"]["error"]) == ("CANCELLED", "CANCELLED")
    assert server.get(f"/v1/result/{task}").json()["status"] == "CANCELLED"
    assert server.call("DELETE", f"/v1/result/{task}").json()["status"] == "CANCELLED"
    assert server.metric("penstock_batched_requests_total", model="pairs") == batched
    assert server.metric("penstock_requests_total", model="pairs", outcome="CANCELLED") >= 1


def test_cancelling_what_is_over_changes_nothing(server: Server) -> None:
    task = make_task(server, "over")
    release(server, "over")
    server.get(f"/v1/result/{task}?wait_ms=50000")
    said = server.call("DELETE", f"/v1/result/{task}").json()
    assert (said["status"], said["output"]) == ("SUCCESS", "over")


def test_cancelling_ends_a_long_poll(server: Server) -> None:
    task = make_task(server, "interrupted")
    begun = threading.Event()

    def poll() -> str:
        begun.set()
        status: str = server.get(f"/v1/result/{task}?wait_ms=50000").json()["status"]
        return status

    with ThreadPoolExecutor(1) as pool:
        polling = pool.submit(poll)
        begun.wait()
        server.call("DELETE", f"/v1/result/{task}")
        assert polling.result() == "CANCELLED"


def test_an_id_can_name_only_one_task(server: Server) -> None:
    body = {"input": "twin", "parameters": {"lane": "twin"}}
    first = server.post("/v1/inference", body, {**ASYNC, "x-request-id": "twin"})
    second = server.post("/v1/inference", body, {**ASYNC, "x-request-id": "twin"})
    assert (first.status, second.status) == (202, 409)
    assert second.json()["error"] == "CONFLICT"
    server.call("DELETE", "/v1/result/twin")


def test_the_query_is_taken_at_its_word(server: Server) -> None:
    task = make_task(server, "query")
    path = f"/v1/result/{task}"
    for query, status, word in (
        ("wait_ms=soon", 422, "wait_ms"),
        ("wait_ms=-1", 422, "wait_ms"),
        ("wait_ms=1.5", 422, "wait_ms"),
        ("wait_ms=", 422, "wait_ms"),
        ("wait_ms=" + "9" * 10, 422, "wait_ms"),
        ("wait=5", 422, "'wait'"),
        ("wait_ms=1&wait_ms=2", 422, "more than once"),
        ("wait_ms", 400, "query"),
        ("&&", 400, "query"),
    ):
        answer = server.get(f"{path}?{query}")
        assert answer.status == status, query
        assert word in answer.json()["message"]
    assert server.call("DELETE", f"{path}?wait_ms=5").status == 422
    server.call("DELETE", path)


def test_results_are_forgotten_after_their_time() -> None:
    with running("sim:0ms", config="[limits]\nresult_ttl = '50ms'") as server:
        task = server.post("/v1/inference", {"input": "a"}, ASYNC).json()["task_id"]
        eventually(lambda: server.get(f"/v1/result/{task}").status == 404)
        assert server.health()["tasks"] == 0


def test_when_all_tasks_are_pending_no_more_are_taken_and_the_oldest_result_makes_room() -> None:
    with running(config=PAIRS.replace("max_long_poll", "max_tasks = 1\nmax_long_poll")) as server:
        first = make_task(server, "first")
        full = server.post("/v1/inference", {"input": "second"}, ASYNC)
        assert full.status == 503
        assert full.json()["error"] == "SERVICE_OVERLOADED"
        assert int(full.headers["retry-after"]) >= 1
        server.call("DELETE", f"/v1/result/{first}")
        second = make_task(server, "second")
        assert server.get(f"/v1/result/{first}").status == 404
        server.call("DELETE", f"/v1/result/{second}")
