"""Probes, metrics and a look inside, on a port of their own."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock import __version__
from penstock.core.policy import POLICIES
from penstock.errors import STATUS_BY_CODE
from penstock.moments import Moments
from penstock.types import Outcome, Reason
from server import PATIENT, Server, eventually, running

# A batch goes when it holds two: until then, requests wait.
PAIRS = f"""{PATIENT}
[models.pairs]
target = "sim:1ms"
policy = "window"
max_batch = 2
max_wait = "60s"
"""

# It dies of its first batch and never starts again: what follows does not pass by before anybody has looked.
DYING = """
import os
if os.path.exists("dead"):
    raise RuntimeError("once was enough")
def batch(inputs):
    open("dead", "w").close()
    os._exit(1)
"""


# The first process that starts serves; any other fails to start.
ONE_ONLY = """
import os
try:
    os.close(os.open("taken", os.O_CREAT | os.O_EXCL))
except FileExistsError:
    raise RuntimeError("one was enough")
def batch(inputs):
    return inputs
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running("sim:1ms", "--workers", "2", "--input", "text", config=PATIENT) as server:
        assert server.post("/v1/inference", {"input": "a"}).status == 200
        assert server.post("/v1/inference", {"input": 5}).status == 422
        yield server


def test_the_probes_say_ok(server: Server) -> None:
    for path in ("/livez", "/readyz"):
        answer = server.admin(path)
        assert (answer.status, answer.body) == (200, b"ok")


def test_without_a_healthy_worker_it_is_alive_but_not_ready(tmp_path: Path) -> None:
    (tmp_path / "dying.py").write_text(DYING)
    config = f"[models.dying]\ntarget = '{tmp_path}/dying.py:batch'\nrequest_timeout = '500ms'"
    with running(config=config) as server:
        server.post("/v1/inference", {"input": "a"})
        eventually(lambda: server.admin("/readyz").status == 503)
        assert b"no healthy worker for dying" in server.admin("/readyz").body
        assert server.admin("/livez").status == 200
        assert server.health()["status"] == "unhealthy"
        assert server.get("/health").status == 503
        assert server.get("/health").json() == {
            "status": "unavailable", "reason": "no healthy worker for dying"
        }  # fmt: skip
        assert server.get("/v1/models").json()["data"][0]["ready"] is False


def test_health_has_the_promised_figures(server: Server) -> None:
    said = server.health()
    assert (said["status"], said["draining"], said["models"]["sim"]["status"]) == (
        "healthy",
        False,
        "healthy",
    )
    assert {"gpu_utilization", "queue_depth", "requests_per_second", "waiting_clients", "tasks"} <= set(said)
    assert said["queue_depth"] == 0
    assert said["models"]["sim"]["workers_healthy"] == said["models"]["sim"]["workers"] == 2


def test_each_worker_is_listed_with_its_state(server: Server) -> None:
    rows = server.admin("/internal/workers").json()
    assert [row["worker"] for row in rows] == ["sim/0", "sim/1"]
    assert {row["state"] for row in rows} == {"idle"}
    assert {row["status"] for row in rows} == {"healthy"}
    assert sum(row["batches"] for row in rows) >= 1


def test_a_server_with_a_worker_missing_is_degraded(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text(ONE_ONLY)
    config = f"[models.one]\ntarget = '{tmp_path}/one.py:batch'\nworkers = 2"
    with running(config=config) as server:
        eventually(lambda: any(row["last_error"] for row in server.admin("/internal/workers").json()))
        assert server.health()["status"] == "degraded"
        rows = server.admin("/internal/workers").json()
        assert sorted(row["status"] for row in rows) == ["healthy", "offline"]
        assert server.admin("/readyz").status == 200


def test_a_request_can_be_looked_at_while_it_waits_and_a_task_afterwards_too() -> None:
    with running(config=PAIRS) as server, ThreadPoolExecutor(1) as pool:
        body = {"input": "secret text", "client_id": "acme"}
        asked = pool.submit(server.post, "/v1/inference", body, {"x-request-id": "look"})
        eventually(lambda: server.admin("/internal/requests/look").status == 200)
        answer = server.admin("/internal/requests/look")
        assert b"secret" not in answer.body
        said = answer.json()
        assert (said["request_id"], said["model"], said["tenant"]) == ("look", "pairs", "acme")
        assert said["status"] == "PENDING"
        assert 0 < said["deadline_in_ms"] <= 60_000
        server.post("/v1/inference", {"input": "b"}, {"prefer": "respond-async", "x-request-id": "kept"})
        assert asked.result().status == 200
        assert server.admin("/internal/requests/kept").json()["status"] == "SUCCESS"
        ended = server.admin("/internal/requests/look")
        assert b"secret" not in ended.body
        said = ended.json()
        assert (said["status"], said["tenant"], said["batch_size"]) == ("SUCCESS", "acme", 2)
        assert said["latency_ms"] >= said["queue_ms"] > 0
        assert said["ended"].endswith("Z")
        assert list(said["timeline_ms"]) == list(Moments._fields)
        moments = list(said["timeline_ms"].values())
        assert (moments, moments[-1]) == (sorted(moments), said["latency_ms"])
        assert (said["reason"], said["with"]) == ("full", ["kept"])
        slowest = server.admin("/internal/requests?slowest=5&model=pairs").json()
        assert [each["request_id"] for each in slowest] == ["look"]
        assert server.admin("/internal/requests?model=other").json() == []
        wrong = server.admin("/internal/requests?slowest=many")
        assert (wrong.status, wrong.json()["error"]) == (422, "UNACCEPTABLE")
        gone = server.admin("/internal/requests/never-was")
        assert (gone.status, gone.json()["error"]) == (404, "NOT_FOUND")
        alone = {"input": "c", "timeout_ms": 500}  # nobody comes to make it a pair
        assert server.post("/v1/inference", alone, {"x-request-id": "late"}).status == 504
        late = server.admin("/internal/requests/late").json()
        assert (late["status"], late["error"]["error"]) == ("EXPIRED", "DEADLINE_EXCEEDED")


def test_the_two_planes_are_apart(server: Server) -> None:
    for path in ("/metrics", "/livez", "/readyz", "/internal/health", "/internal/workers"):
        assert server.get(path).status == 404
    assert server.admin("/v1/inference").status == 404


# Their names; empty where a path leads to none.
DOORS = {
    "native", "short", "openai", "files", "open_inference", "tei", "rerank", "websocket", "docs", "grpc",
    "grpc_open_inference", "",
}  # fmt: skip


def test_metrics_have_the_promised_names_and_only_closed_label_sets(server: Server) -> None:
    answer = server.admin("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(answer.body.decode())}
    assert all(name.startswith("penstock_") for name in families)
    assert families["penstock_batch_size_distribution"].type == "histogram"
    assert families["penstock_gpu_worker_latency_seconds"].type == "histogram"
    assert families["penstock_queue_depth"].type == "gauge"
    assert families["penstock_loop_pause_seconds"].type == "histogram"
    assert families["penstock_loop_longest_pause_seconds"].type == "gauge"
    assert families["penstock_unsent_bytes"].type == "gauge"
    assert families["penstock_unsent_cut"].type == "counter"
    for name in ("queue_wait_seconds", "request_latency_seconds", "requests", "batches", "refused_requests"):
        assert f"penstock_{name}" in families
    allowed: dict[str, set[str]] = {
        "model": {"sim", ""},
        "tier": {"enterprise", "paid", "free"},
        "state": {"idle", "busy", "resting", "loading", "full", "offline"},
        "outcome": {*STATUS_BY_CODE, Outcome.SUCCESS},
        "code": set(STATUS_BY_CODE),
        "door": DOORS,
        "reason": set(Reason),
        "level": {"warning", "critical"},
        "batch": {"one", "full"},
        "policy": set(POLICIES),
        "role": {"serve"},
        "version": {__version__},
    }
    for family in families.values():
        for sample in family.samples:
            for label, value in sample.labels.items():
                if label != "le":
                    assert value in allowed[label], sample


def test_metrics_count_what_happened(server: Server) -> None:
    done = server.metric("penstock_requests_total", model="sim", outcome="SUCCESS")
    batched = server.metric("penstock_batched_requests_total", model="sim")
    observed = server.metric("penstock_request_latency_seconds_count", model="sim")
    for text in "abc":
        server.post("/v1/inference", {"input": text})
    assert server.metric("penstock_requests_total", model="sim", outcome="SUCCESS") == done + 3
    assert server.metric("penstock_batched_requests_total", model="sim") == batched + 3
    assert server.metric("penstock_request_latency_seconds_count", model="sim") == observed + 3


def test_whatever_clients_invent_adds_no_series(server: Server) -> None:
    def series() -> int:
        families = text_string_to_metric_families(server.admin("/metrics").body.decode())
        return sum(len(family.samples) for family in families)

    def invent(number: int) -> None:
        server.post("/v1/inference", {"input": "a", "client_id": f"client{number}"})
        server.post("/v1/inference", {"input": "a", "model": f"model{number}"})
        server.get(f"/path{number}")
        server.call(f"VERB{number}", "/v1/inference")

    invent(0)
    before = series()
    for number in range(1, 20):
        invent(number)
    assert series() == before


def test_every_setting_in_force_is_told_with_its_source_and_no_secret(tmp_path: Path) -> None:
    config = f"""
    [models.m]
    target = "http://127.0.0.1:1/x"
    http.headers = {{ Authorization = "Bearer hunter2" }}
    [ledger]
    url = "sqlite:///{tmp_path}/ledger.db"
    spool = "{tmp_path}/spool"
    [limits]
    max_queue = 7
    """
    secret = {"PENSTOCK_SERVER_ADMIN_TOKEN": "hunter3", "PENSTOCK_REDIS_URL": "redis://me:hunter4@far:1"}
    with running(None, "--max-batch", "9", config=config, environment=secret) as server:
        assert server.admin("/internal/config").status == 401
        answer = server.admin("/internal/config", headers={"authorization": "Bearer hunter3"})
        assert b"hunter" not in answer.body
        rows = {row["key"]: (row["value"], row["source"]) for row in answer.json()["settings"]}
        assert rows["limits.max_queue"] == ("7", "penstock.toml:9")
        assert rows["models.m.max_batch"] == ("9", "--max-batch")
        assert rows["server.admin_token"] == ('"***"', "PENSTOCK_SERVER_ADMIN_TOKEN")
        assert rows["redis.url"] == ('"redis://me:***@far:1"', "PENSTOCK_REDIS_URL")
        assert rows["models.m.policy"] == ('"paced"', "default")
        assert rows["timeouts.queue"] == ('"2s"', "default")
