"""A whole installation under one command: what one gateway took is known at the other, and nothing stays behind."""

import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from command_line import Typed, typed
from redis import Redis
from up_kit import Started, Up, started, up

from own_ports import free_ports
from penstock.bench.scrape import scrape
from penstock.installation.store_memory import store_memory
from server import call, eventually

__all__ = ["typed"]

EXAMPLE = Path(__file__).parents[2] / "examples" / "hello.py"
# Notes what it ran; `hold` waits for a file, `bad` fails until another is there.
FUNCTION = """\
import time
from pathlib import Path

HERE = Path(__file__).parent


def batchstring(inputs):
    with (HERE / "ran").open("a") as ran:
        ran.write("".join(f"{each}\\n" for each in inputs))
    while "hold" in inputs and not (HERE / "go").exists():
        time.sleep(0.01)
    if "bad" in inputs and not (HERE / "mended").exists():
        raise ValueError("cannot read bad")
    return [each.upper() for each in inputs]
"""
DEAD_LETTERS = 'penstock_dead_letters_total{model="batchstring"} '
WORKERS = 2
PATIENT = """\
[timeouts]
queue = "60s"
processing = "60s"
request = "60s"

[retries]
base = "10ms"
"""


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("app")
    (folder / "app.py").write_text(FUNCTION)
    (folder / "patient.toml").write_text(PATIENT)
    return folder


@pytest.fixture(scope="module")
def whole(workplace: Path) -> Iterator[Up]:
    """Two of each; ended with SIGTERM, and looked after."""
    options = ("--config", str(workplace / "patient.toml"), "--max-batch", "1")
    with up(
        f"{workplace / 'app.py'}:batchstring", *options, gateways=2, batchers=2, workers=WORKERS
    ) as running:
        yield running
        family = running.family()
        assert running.end() == 0, running.lines
        all_end(family)


def all_end(family: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(family, 60)
    assert not alive


def task(whole: Up, gateway: str, text: str, name: str, **more: str) -> None:
    body = json.dumps({"input": text, **more}).encode()
    answer = whole.ask(gateway, "POST", "/v1/inference", body, prefer="respond-async", x_request_id=name)
    assert answer.status == 202, answer.body


def ran(workplace: Path) -> list[str]:
    file = workplace / "ran"
    return file.read_text().split() if file.exists() else []


def test_the_banner_names_every_part_and_a_line_that_works(whole: Up) -> None:
    for name, url in whole.admins.items():
        assert f"{url}/internal/health" in whole.says(f"  {name} ")
    for name, url in whole.ports.items():
        assert f"{url}/v1/inference" in whole.says(f"  {name} ")
    assert whole.says("  redis ").split()[1].startswith("redis://127.0.0.1:")
    assert whole.says("try it:").split()[3] == f"{whole.ports['gateway-1']}/v1/inference"


def test_its_store_has_a_limit_and_evicts_nothing(whole: Up) -> None:
    with Redis.from_url(whole.says("  redis ").split()[1]) as redis:
        said = redis.config_get("maxmemory*")
    assert said["maxmemory-policy"] == "noeviction"
    assert int(said["maxmemory"]) == store_memory(None)


@pytest.mark.parametrize("gateway", ["gateway-1", "gateway-2"])
def test_either_gateway_answers(whole: Up, gateway: str) -> None:
    answer = whole.ask(gateway, "POST", "/v1/inference", b'{"input": "hello"}')
    assert (answer.status, answer.json()["output"]) == (200, "HELLO")


def test_what_one_gateway_accepted_is_read_at_the_other(whole: Up) -> None:
    task(whole, "gateway-1", "far", "read-elsewhere")
    answer = whole.ask("gateway-2", "GET", "/v1/result/read-elsewhere?wait_ms=20000")
    assert (answer.json()["status"], answer.json()["output"]) == ("SUCCESS", "FAR")


def test_whoever_waits_at_another_gateway_is_told_when_it_is_over(whole: Up, workplace: Path) -> None:
    task(whole, "gateway-1", "hold", "long-poll")
    eventually(lambda: whole.ask("gateway-1", "GET", "/v1/result/long-poll").json()["status"] == "PROCESSING")
    with ThreadPoolExecutor() as pool:
        early = whole.ask("gateway-2", "GET", "/v1/result/long-poll?wait_ms=10").json()
        waiting = pool.submit(whole.ask, "gateway-2", "GET", "/v1/result/long-poll?wait_ms=20000")
        (workplace / "go").touch()
        assert (early["status"], waiting.result().json()["status"]) == ("PROCESSING", "SUCCESS")
    (workplace / "go").unlink()


def test_either_gateway_tells_what_became_of_a_request(whole: Up) -> None:
    body = b'{"input": "looked at", "client_id": "anna"}'
    assert whole.ask("gateway-1", "POST", "/v1/inference", body, x_request_id="sync-one").status == 200
    task(whole, "gateway-1", "far", "task-one", client_id="anna")
    whole.ask("gateway-2", "GET", "/v1/result/task-one?client_id=anna&wait_ms=20000")
    for gateway in ("gateway-1", "gateway-2"):
        answer = whole.admin_of(gateway, "/internal/requests/sync-one")
        said = answer.json()
        assert (said["status"], said["tenant"], said["model"]) == ("SUCCESS", "anna", "batchstring")
        assert said["latency_ms"] > 0
        assert said["gateway"].startswith("gateway-")
        assert b"looked at" not in answer.body
        kept = whole.admin_of(gateway, "/internal/requests/task-one?tenant=anna").json()
        assert (kept["status"], kept["batch_size"]) == ("SUCCESS", 1)
    assert whole.admin_of("gateway-1", "/internal/requests/never-was").status == 404


def test_what_is_cancelled_at_another_gateway_while_it_waits_never_runs(whole: Up, workplace: Path) -> None:
    """Both workers hold; whatever comes behind them waits, but for what each is handed ahead."""
    before = ran(workplace).count("hold")
    for number in range(WORKERS):
        task(whole, f"gateway-{number + 1}", "hold", f"holding-{number}")
    eventually(lambda: ran(workplace).count("hold") >= before + WORKERS)
    names = [f"cancelled-{number}" for number in range(6)]
    for name in names:
        task(whole, "gateway-1", name, name)
    for name in names:
        said = whole.ask("gateway-2", "DELETE", f"/v1/result/{name}").json()
        assert said["status"] == "CANCELLED"
    task(whole, "gateway-1", "after", "after")
    (workplace / "go").touch()
    assert whole.ask("gateway-2", "GET", "/v1/result/after?wait_ms=20000").json()["output"] == "AFTER"
    for number in range(WORKERS):
        held = whole.ask("gateway-2", "GET", f"/v1/result/holding-{number}?wait_ms=20000").json()
        assert held["status"] == "SUCCESS"
    (workplace / "go").unlink()
    assert len(set(names) & set(ran(workplace))) <= WORKERS
    assert whole.ask("gateway-1", "GET", f"/v1/result/{names[0]}").json()["status"] == "CANCELLED"


def test_the_task_of_another_tenant_is_not_there(whole: Up) -> None:
    task(whole, "gateway-1", "mine", "of-anna", client_id="anna")
    path = "/v1/result/of-anna"
    assert whole.ask("gateway-2", "GET", f"{path}?client_id=anna").status == 200
    assert whole.ask("gateway-2", "GET", f"{path}?client_id=bert").status == 404
    assert whole.ask("gateway-2", "DELETE", path).status == 404


@pytest.mark.parametrize("name", ["gateway-1", "batcher-2", "worker-1"])
def test_every_role_answers_its_probes_and_tells_how_all_stand(whole: Up, name: str) -> None:
    assert whole.admin_of(name, "/livez").body == b"ok"
    eventually(lambda: whole.admin_of(name, "/readyz").body == b"ok")
    assert b"\npenstock_" in whole.admin_of(name, "/metrics").body
    assert whole.admin_of(name, "/internal/workers").status == 200

    def all_is_well() -> bool:
        said: dict[str, Any] = whole.admin_of(name, "/internal/health").json()
        assert said["role"] == name.partition("-")[0]
        healthy = said["models"]["batchstring"]["workers_healthy"]
        parts = (said["gateways"], said["batchers"], healthy)
        return parts == (2, 2, 2) and said["status"] == "healthy" and bool(said["redis"]["reachable"])

    eventually(all_is_well)


def test_the_workers_are_listed_with_their_state(whole: Up, typed: Typed) -> None:
    def both_healthy() -> bool:
        code, listed, _ = typed("workers", "--admin", whole.admins["gateway-2"])
        assert code == 0
        head, *rows = listed.splitlines()
        assert head.split()[:3] == ["worker", "model", "status"]
        names = [row.split("-")[:2] for row in rows]
        assert names == [["worker", "1"], ["worker", "2"]]  # as their lines begin on the console
        return [row.split()[1:3] for row in rows] == [["batchstring", "healthy"]] * 2

    def seen_lately() -> bool:
        told = json.loads(typed("workers", "--json", "--admin", whole.admins["gateway-1"])[1])
        return all(row["status"] == "healthy" and row["last_seen"] < 2.0 for row in told)

    eventually(both_healthy)
    eventually(seen_lately)


def test_any_gateway_says_where_the_batch_counters_are(whole: Up) -> None:
    """`penstock bench` asks there."""
    found = scrape(whole.admins["gateway-2"])
    assert found is not None
    parts = ("batcher-1", "batcher-2", "worker-1", "worker-2")
    assert set(found.pages) == {whole.admins[part] for part in parts}
    for part in parts:
        shown = "penstock_batches" if part.startswith("batcher") else "penstock_workers"
        assert f"\n# TYPE {shown}" in found.pages[whole.admins[part]]


def test_a_dead_letter_is_listed_shown_retried_and_purged(whole: Up, workplace: Path, typed: Typed) -> None:
    def dlq(*words: str) -> str:
        code, out, err = typed("dlq", *words, "--admin", whole.admins["gateway-2"])
        assert (code, err) == (0, "")
        return out

    def letters() -> list[dict[str, Any]]:
        said: list[dict[str, Any]] = json.loads(dlq("list", "--json"))
        return said

    assert dlq("list") == "no dead letters\n"
    body = b'{"input": "bad", "client_id": "anna"}'
    assert whole.ask("gateway-1", "POST", "/v1/inference", body, x_request_id="dies").status == 502
    task(whole, "gateway-1", "bad", "dies-too")
    assert whole.ask("gateway-1", "GET", "/v1/result/dies-too?wait_ms=20000").json()["status"] == "FAILED"
    eventually(lambda: len(letters()) == 2)
    newer, letter = letters()
    assert (newer["request_id"], newer["tenant"]) == ("dies-too", "")
    assert {name: letter[name] for name in ("request_id", "model", "tenant", "attempts", "error")} == {
        "request_id": "dies", "model": "batchstring", "tenant": "anna", "attempts": 3, "error": "BACKEND_FAILED",
    }  # fmt: skip
    assert letter["time"].endswith("Z")
    assert "dies-too" in dlq("list")
    shown = json.loads(dlq("show", letter["id"]))
    assert (shown["input"], shown["request_id"]) == ('"bad"', "dies")
    assert "cannot read bad" in shown["details"]
    assert [attempt["error"] for attempt in shown["history"]] == ["BACKEND_FAILED"] * 3
    assert [attempt["time"] for attempt in shown["history"]] == sorted(
        attempt["time"] for attempt in shown["history"]
    )
    assert shown["history"][-1]["time"] <= shown["time"]
    counted = [
        whole.admin_of(f"batcher-{number}", "/metrics").body.decode().partition(DEAD_LETTERS)[2].split()[0]
        for number in (1, 2)
    ]
    assert sum(map(float, counted)) == 2
    assert letter["id"] in whole.says(f"dead letter  id={letter['id']}")

    (workplace / "mended").touch()
    assert dlq("retry", letter["id"]) == "sent again; its result will be at /v1/result/dies\n"
    result = whole.ask("gateway-1", "GET", "/v1/result/dies?client_id=anna&wait_ms=20000").json()
    assert (result["status"], result["output"]) == ("SUCCESS", "BAD")
    assert dlq("retry", "--all") == "sent again: 1\n"
    result = whole.ask("gateway-1", "GET", "/v1/result/dies-too?wait_ms=20000").json()
    assert (result["status"], result["output"]) == ("SUCCESS", "BAD")
    assert letters() == []

    (workplace / "mended").unlink()
    assert whole.ask("gateway-1", "POST", "/v1/inference", body).status == 502
    eventually(lambda: len(letters()) == 1)
    assert dlq("purge", "--yes") == "forgotten: 1\n"
    assert dlq("list") == "no dead letters\n"
    code, _, told = typed("dlq", "show", letter["id"], "--admin", whole.admins["gateway-1"])
    assert code == 2
    assert told.startswith(f"penstock: no dead letter '{letter['id']}'")


def test_a_request_is_explained_at_either_gateway(whole: Up, typed: Typed) -> None:
    body = b'{"input": "explained", "client_id": "anna"}'
    assert whole.ask("gateway-1", "POST", "/v1/inference", body, x_request_id="told").status == 200
    bad = b'{"input": "bad", "client_id": "anna"}'
    assert whole.ask("gateway-2", "POST", "/v1/inference", bad, x_request_id="ill-told").status == 502
    for gateway in ("gateway-1", "gateway-2"):
        where = "--admin", whole.admins[gateway]
        code, out, err = typed("explain", "told", *where, "--json")
        assert (code, err) == (0, "")
        said = json.loads(out)
        assert said["source"] == "the server"
        facts, steps = said["facts"], [step["text"] for step in said["steps"]]
        assert (facts["status"], facts["tenant"], facts["batch_size"]) == ("SUCCESS", "anna", 1)
        assert facts["gateway"].startswith("gateway-")
        assert "a batch of its own went, because" in steps[1]
        assert (steps[2].endswith("began to run the batch."), steps[-1]) == (True, "It was answered.")
        code, out, _ = typed("explain", "ill-told", *where)
        assert code == 0
        assert "Attempt 1 failed on " in out
        assert "It was answered with its failure" in out
    code, _, err = typed("explain", "never-was", "--admin", whole.admins["gateway-1"])
    assert (code, err.startswith("penstock: nobody knows a request 'never-was'")) == (2, True)


@pytest.mark.parametrize("name", ["gateway-2", "batcher-1", "worker-1"])
def test_a_part_that_is_killed_is_started_again(whole: Up, name: str) -> None:
    before = whole.part(name)
    before.kill()
    all_end([before])
    assert "SIGKILL" in whole.says(f"{name:<10} | ended with SIGKILL; started again")

    def back() -> bool:
        try:
            return whole.admin_of(name, "/readyz").status == 200
        except OSError:
            return False

    eventually(back)
    whole.family()
    answer = whole.ask("gateway-1", "POST", "/v1/inference", b'{"input": "again"}')
    assert answer.status == 200, answer.body
    assert answer.json()["output"] == "AGAIN"


def test_it_starts_where_the_admin_planes_ask_for_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_SERVER_ADMIN_TOKEN", "secret")
    first = free_ports(4)
    words = ("up", "sim:1ms", "--port", str(first), "--admin-port", str(first + 1))
    with started(Started, *words, directory=tmp_path) as running:
        running.says("try it:")
        body, headers = b'{"input": "first"}', {"content-type": "application/json"}
        assert call(f"http://127.0.0.1:{first}", "POST", "/v1/inference", body, headers).status == 200
        assert running.end() == 0, running.lines


def test_ctrl_c_while_it_starts_ends_what_was_started(tmp_path: Path) -> None:
    first = free_ports(4)
    words = ("up", f"{EXAMPLE}:batchstring", "--port", str(first), "--admin-port", str(first + 1))
    with started(Started, *words, directory=tmp_path) as running:

        def under_way() -> bool:
            assert running.process.poll() is None, running.lines
            return len(running.family()) >= 3

        eventually(under_way)
        family = running.family()
        assert running.end(signal.SIGINT) == 0, running.lines
        all_end(family)


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGKILL])
def test_however_it_ends_no_process_is_left_behind(kind: signal.Signals) -> None:
    with up(f"{EXAMPLE}:batchstring") as running:
        answer = running.ask("gateway-1", "POST", "/v1/inference", b'{"input": "world"}')
        assert answer.json()["output"] == "Hello, World!"
        family = running.family()
        assert len(family) >= 4  # the store, and one of each
        code = running.end(kind)
        assert code == (0 if kind is signal.SIGINT else -signal.SIGKILL)
        all_end(family)
        assert not [line for line in running.lines if "Traceback" in line or "never retrieved" in line]
