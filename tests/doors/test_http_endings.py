"""What ends without an answer: too late, given up by its client, or overtaken by a drain."""

import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from server import HUNG, PATIENT, Server, eventually, held, running
from wire import post

# A batch goes when it holds three: until then, requests wait.
HOLDING = f"""{PATIENT}
[models.holding]
target = "sim:1ms"
policy = "window"
max_batch = 3
max_wait = "60s"
"""


def held_one(folder: Path) -> str:
    """The configuration of a model that has one batch of one in hand until the test lets it go."""
    return f"{PATIENT}\n[server]\ndrain = '60s'\n[models.held]\ntarget = '{held(folder)}'\nmax_batch = 1\n"


def in_queue(server: Server, number: int) -> None:
    eventually(lambda: server.health()["queue_depth"] == number)


def test_a_client_that_leaves_before_dispatch_takes_its_request_along() -> None:
    with running(config=HOLDING) as server:
        with socket.create_connection(server.address, timeout=HUNG) as staying:
            staying.sendall(post(b'{"input": "stays"}'))
            with socket.create_connection(server.address, timeout=HUNG) as leaving:
                leaving.sendall(post(b'{"input": "leaves"}'))
                in_queue(server, 2)
            in_queue(server, 1)
            assert server.health()["waiting_clients"] == 1
            assert server.metric("penstock_requests_total", model="holding", outcome="CLIENT_LEFT") == 1
            with ThreadPoolExecutor(2) as pool:
                others = [pool.submit(server.post, "/v1/inference", {"input": text}) for text in "ab"]
                assert [other.result().json()["metadata"]["batch_size"] for other in others] == [3, 3]
            assert b'"output":"stays"' in staying.recv(65536)
        assert server.metric("penstock_batched_requests_total", model="holding") == 3


def test_many_that_leave_at_once_leave_nothing_behind() -> None:
    with running(config=HOLDING.replace("max_batch = 3", "max_batch = 1000")) as server:
        with ExitStack() as crowd:
            for _ in range(200):
                client = crowd.enter_context(socket.create_connection(server.address, timeout=HUNG))
                client.sendall(post(b'{"input": "one of many"}'))
            in_queue(server, 200)
        in_queue(server, 0)
        assert server.health()["waiting_clients"] == 0
        assert server.metric("penstock_requests_total", model="holding", outcome="CLIENT_LEFT") == 200
        assert server.metric("penstock_batched_requests_total", model="holding") == 0


def test_what_is_not_answered_by_its_deadline_is_504_and_what_only_waited_never_ran(tmp_path: Path) -> None:
    with running(config=held_one(tmp_path)) as server:
        with ThreadPoolExecutor(2) as pool:
            running_one = pool.submit(server.post, "/v1/inference", {"input": "a", "timeout_ms": 900})
            eventually(lambda: server.admin("/internal/workers").json()[0]["in_flight"] == 1)
            waiting_one = pool.submit(server.post, "/v1/inference", {"input": "b", "timeout_ms": 300})
            for asked in (waiting_one, running_one):
                answer = asked.result()
                assert answer.status == 504
                assert answer.json()["error"] == "DEADLINE_EXCEEDED"
                assert "retry-after" not in answer.headers
        assert server.metric("penstock_requests_total", model="held", outcome="DEADLINE_EXCEEDED") == 2
        assert server.metric("penstock_batched_requests_total", model="held") == 1
        assert server.health()["queue_depth"] == server.health()["waiting_clients"] == 0


def test_the_servers_own_limit_holds_where_the_client_names_none() -> None:
    with running("sim:3s", "--request-timeout", "300ms", "--processing-timeout", "20s") as server:
        assert server.post("/v1/inference", {"input": "a"}).status == 504


def test_a_client_cannot_ask_for_more_time_than_there_is() -> None:
    with running(
        "sim:3s",
        "--processing-timeout",
        "20s",
        config="[timeouts]\nmax_client = '300ms'\nqueue = '200ms'\nrequest = '250ms'",
    ) as server:
        assert server.post("/v1/inference", {"input": "a", "timeout_ms": 60_000}).status == 504


def test_a_drain_answers_what_was_accepted_and_refuses_the_rest(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool, running(config=held_one(tmp_path)) as server:
        assert server.admin("/readyz").status == 200
        accepted = pool.submit(server.post, "/v1/inference", {"input": "in time"})
        eventually(lambda: server.health()["waiting_clients"] == 1)
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: server.admin("/readyz").status == 503)
        assert server.admin("/readyz").body == b"draining"
        assert server.admin("/livez").status == 200
        assert server.health()["draining"] is True
        for headers in ({}, {"prefer": "respond-async"}):
            late = server.post("/v1/inference", {"input": "late"}, headers)
            assert late.status == 503
            assert late.json()["error"] == "SERVICE_DRAINING"
            assert int(late.headers["retry-after"]) >= 1
        server.open()
        assert accepted.result().status == 200
        assert server.process.wait(HUNG) == 0
        assert "Traceback" not in server.stderr()


def test_what_waits_for_company_goes_at_once_when_the_server_drains() -> None:
    with running(config=HOLDING) as server, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(server.post, "/v1/inference", {"input": "alone"})
        in_queue(server, 1)
        assert server.stop() == 0
        assert asked.result().json()["output"] == "alone"
