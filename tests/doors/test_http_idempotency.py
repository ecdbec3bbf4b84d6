"""Over HTTP: the same Idempotency-Key and body get the first outcome; another body gets 409."""

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import pytest

from penstock.doors.idempotency import idempotency_key
from penstock.errors import Malformed
from server import HUNG, PATIENT, Answer, Server, eventually, running
from wire import post

# A batch goes when it holds two: until the test sends the second, the first waits.
PAIRS = f"""{PATIENT}
[models.pairs]
target = "sim:1ms,poison=POISON"
policy = "window"
max_batch = 2
max_wait = "60s"
"""
ASYNC = {"prefer": "respond-async"}
_keys = count()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running("sim:1ms,poison=POISON", config=PATIENT) as server:
        yield server


@pytest.fixture(scope="module")
def pairs() -> Iterator[Server]:
    with running(config=PAIRS) as server:
        yield server


@pytest.fixture
def key() -> str:
    return f"key-{next(_keys)}"


def ask(
    server: Server, key: str, path: str = "/v1/inference", /, *, lane: str = "", **body: object
) -> Answer:
    """A lane is a test's own, so that no other test fills its batches."""
    said = {"input": "a", **({"parameters": {"lane": lane}} if lane else {}), **body}
    return server.post(path, said, {"idempotency-key": key})


def release(server: Server, lane: str) -> None:
    """The second of the pair."""
    assert server.post("/v1/inference", {"input": "b", "parameters": {"lane": lane}}).status == 200


def executed(server: Server, model: str = "sim") -> float:
    return server.metric("penstock_batched_requests_total", model=model)


def batches(server: Server) -> float:
    """That took a worker any time."""
    return server.metric("penstock_gpu_worker_latency_seconds_count", model="sim")


def test_the_same_key_and_body_get_the_first_outcome_by_every_route(server: Server, key: str) -> None:
    before = executed(server), batches(server)
    first = server.post(
        "/v1/inference", {"input": "a"}, {"idempotency-key": key, "x-request-id": "the-first"}
    )
    again = server.post(
        "/v1/inference", {"input": "a"}, {"idempotency-key": key, "x-request-id": "the-second"}
    )
    short = ask(server, f'"{key}"', "/api/inference")
    assert [answer.status for answer in (first, again, short)] == [200, 200, 200]
    assert "idempotency-replayed" not in first.headers
    for answer in (again, short):
        assert answer.headers["idempotency-replayed"] == "true"
        assert answer.headers["x-request-id"] == answer.json()["request_id"] == "the-first"
        assert answer.json()["output"] == "a"
    assert set(short.json()) == {"output", "request_id", "latency_ms"}
    assert set(again.json()) == set(first.json())
    assert again.json()["metadata"]["queue_ms"] == 0
    assert (executed(server), batches(server)) == (before[0] + 1, before[1] + 1)


def test_the_same_key_with_another_body_is_a_conflict(server: Server, key: str) -> None:
    assert ask(server, key).status == 200
    before = executed(server)
    for other in ({"input": "b"}, {"input": "a", "parameters": {"p": 1}}):
        refused = ask(server, key, **other)
        assert (refused.status, refused.json()["error"]) == (409, "IDEMPOTENCY_CONFLICT")
        assert "Idempotency-Key" in refused.json()["message"]
    assert ask(server, key, timeout_ms=1000).status == 200
    assert executed(server) == before


def test_those_who_ask_while_the_first_runs_are_answered_with_it(pairs: Server, key: str) -> None:
    before = executed(pairs, "pairs")
    waiting = pairs.health()["waiting_clients"]
    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(ask, pairs, key, lane=key) for _ in range(8)]
        eventually(lambda: pairs.health()["waiting_clients"] == waiting + 8)
        assert ask(pairs, key, lane=key, input="other").status == 409
        release(pairs, key)
        heard = [answer.result() for answer in answers]
    assert {(answer.status, answer.json()["output"]) for answer in heard} == {(200, "a")}
    assert len({answer.json()["request_id"] for answer in heard}) == 1
    assert sum("idempotency-replayed" in answer.headers for answer in heard) == 7
    assert executed(pairs, "pairs") == before + 2


def test_a_client_that_loses_its_connection_finds_the_outcome_when_it_asks_again(
    pairs: Server, key: str
) -> None:
    before = executed(pairs, "pairs")
    keys = pairs.health()["idempotency_keys"]
    said = {"input": "a", "parameters": {"lane": key}}
    with socket.create_connection(pairs.address, timeout=HUNG) as client:
        client.sendall(post(json.dumps(said).encode(), f"idempotency-key: {key}"))
        eventually(lambda: pairs.health()["idempotency_keys"] == keys + 1)
    release(pairs, key)
    again = ask(pairs, key, lane=key)
    assert (again.status, again.json()["output"]) == (200, "a")
    assert again.headers["idempotency-replayed"] == "true"
    assert executed(pairs, "pairs") == before + 2


def test_a_failure_of_the_execution_is_told_again(server: Server, key: str) -> None:
    first, before = ask(server, key, input="POISON"), executed(server)
    again = ask(server, key, input="POISON")
    assert (first.status, first.json()["error"]) == (502, "BACKEND_FAILED")
    assert (again.status, again.json()) == (502, first.json())
    assert again.headers["idempotency-replayed"] == "true"
    assert executed(server) == before


def test_a_refusal_is_not_kept(key: str) -> None:
    config = "[limits]\nmax_queue = 1\n" + PAIRS
    with running(config=config) as server, ThreadPoolExecutor(1) as pool:
        first = pool.submit(ask, server, "first", lane="l")
        eventually(lambda: server.health()["queue_depth"] == 1)
        refused = ask(server, key, lane="other")
        assert (refused.status, refused.json()["error"]) == (503, "SERVICE_OVERLOADED")
        assert int(refused.headers["retry-after"]) >= 1
        task = server.post(
            "/v1/inference",
            {"input": "a", "parameters": {"lane": "l"}},
            {**ASYNC, "idempotency-key": "first"},
        )
        server.call("DELETE", task.headers["location"])
        assert first.result().status == 409  # cancelled
        assert (
            ask(server, key, lane="other", timeout_ms=300).status == 504
        )  # it was let in, and nobody joined it


def test_two_tenants_with_the_same_key_never_meet(server: Server, key: str) -> None:
    mine = ask(server, key, client_id="acme")
    theirs = ask(server, key, client_id="globex", input="b")
    assert (mine.json()["output"], theirs.json()["output"]) == ("a", "b")
    assert "idempotency-replayed" not in theirs.headers


def test_a_task_with_a_key_is_given_again_and_can_be_awaited_in_the_other_form(
    pairs: Server, key: str
) -> None:
    said = {"input": "a", "parameters": {"lane": key}}
    first, again = (pairs.post("/v1/inference", said, {**ASYNC, "idempotency-key": key}) for _ in range(2))
    assert (first.status, again.status) == (202, 202)
    assert first.json() == again.json()
    assert first.headers["location"] == again.headers["location"]
    assert again.headers["idempotency-replayed"] == "true"
    assert "idempotency-replayed" not in first.headers
    release(pairs, key)
    result = pairs.get(f"{first.headers['location']}?wait_ms=30000").json()
    assert (result["status"], result["output"]) == ("SUCCESS", "a")
    assert ask(pairs, key, lane=key).json()["output"] == "a"


def test_a_key_is_forgotten_after_its_time() -> None:
    with running("sim:1ms", config=PATIENT + "[idempotency]\nttl = '50ms'") as server:
        assert ask(server, "k").status == 200
        eventually(lambda: ask(server, "k", input="b").status == 200)


def test_repeated_requests_count_against_the_quota_and_conflicts_too() -> None:
    config = f"""{PATIENT}
[tiers.levels.paid]
rank = 0
requests_per_minute = 3
in_flight = 1
"""
    with running("sim:1ms", config=config) as server:
        heard = [ask(server, "k"), ask(server, "k"), ask(server, "k", input="b"), ask(server, "k")]
        assert [answer.status for answer in heard] == [200, 200, 409, 429]
        assert [answer.headers["ratelimit-remaining"] for answer in heard[:2]] == ["2", "1"]


def test_a_key_that_is_none_is_refused_in_words(server: Server) -> None:
    for header in ("", " ", "a b", "a, b", '"', '""', '"a', '"a"b"', '"a\\b"', "x" * 256, "\u00e9"):
        refused = ask(server, header.encode().decode("latin-1"))
        assert (refused.status, refused.json()["error"]) == (400, "MALFORMED_REQUEST"), header
        assert "1 to 255 visible ASCII characters" in refused.json()["message"]


def test_a_key_means_the_same_with_and_without_quotes() -> None:
    for header, named in (
        (b"abc", "abc"),
        (b'"abc"', "abc"),
        (b'a"b', 'a"b'),
        (b'"a\\"b\\\\c"', 'a"b\\c'),
        (b'"with space"', "with space"),
        (b"x" * 255, "x" * 255),
        (b'"' + b"x" * 255 + b'"', "x" * 255),
    ):
        assert idempotency_key({b"idempotency-key": header}) == named
    assert idempotency_key({}) is None
    with pytest.raises(Malformed):
        idempotency_key({b"idempotency-key": b'"' + b"x" * 256 + b'"'})
