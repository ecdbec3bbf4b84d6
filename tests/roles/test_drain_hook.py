"""`POST /drain` and `penstock drain`: what a supervisor asks before it stops a process."""

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from up_kit import Started, started

from own_ports import free_port
from server import CHANGING, PATIENT, PENSTOCK, Server, call, eventually, held, running

SLOW = """
import os, time
while not os.path.exists("open"):
    time.sleep(0.01)
def batch(inputs):
    return inputs
"""


def penstock_drain(server: Server, *options: str) -> "subprocess.CompletedProcess[str]":
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    return subprocess.run(
        [str(PENSTOCK), "drain", "--admin", server.admin_url, *options],
        env=inherited, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_it_returns_when_what_was_accepted_is_answered_and_nothing_new_was_taken(tmp_path: Path) -> None:
    with running(held(tmp_path), config=PATIENT) as server, ThreadPoolExecutor() as pool:
        accepted = pool.submit(server.post, "/v1/inference", {"input": "first"})
        eventually(lambda: server.health()["waiting_clients"] == 1)
        asked = pool.submit(server.admin, "/drain", "POST")
        eventually(lambda: server.admin("/readyz").body == b"draining")
        refused = server.post("/v1/inference", {"input": "second"})
        assert (refused.status, refused.json()["error"]) == (503, "SERVICE_DRAINING")
        assert not asked.done()
        server.open()
        assert asked.result().json() == {"drained": True, "unfinished": 0}
        assert accepted.result().status == 200
        assert server.admin("/livez").status == 200
        done = penstock_drain(server)
        assert (done.returncode, done.stdout) == (0, "drained\n")
        assert server.stop() == 0
        said = [json.loads(line)["message"] for line in server.log_lines()]
        assert (said.count("draining"), said.count("drained")) == (1, 1)


def test_a_drain_that_is_too_short_says_how_many_are_open(tmp_path: Path) -> None:
    # The default is half a minute.
    config = f"[server]\ndrain = '50ms'\n{PATIENT}"
    with running(held(tmp_path), config=config) as server, ThreadPoolExecutor() as pool:
        accepted = pool.submit(server.post, "/v1/inference", {"input": "first"})
        eventually(lambda: server.health()["waiting_clients"] == 1)
        done = penstock_drain(server)
        assert done.returncode == 2
        assert "not all was finished within server.drain: 1 requests are open" in done.stderr
        assert server.stop() == 0
        assert accepted.result().status == 503


def test_a_web_page_cannot_ask_for_it_nor_anybody_by_a_link() -> None:
    with running("sim:1ms") as server:
        assert server.admin("/drain", "POST", headers={}).status == 403
        assert (
            server.admin("/drain", "POST", headers={**CHANGING, "origin": "http://evil.example"}).status
            == 403
        )
        assert server.admin("/drain").status == 405
        assert server.admin("/readyz").status == 200


def test_a_server_that_still_loads_has_nothing_to_finish_and_is_not_ready_when_it_has_loaded(
    tmp_path: Path,
) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    admin = f"http://127.0.0.1:{(port := free_port())}"
    words = ("serve", "slow.py:batch", "--port", "0", "--admin-port", str(port), "--quiet")
    with started(Started, *words, directory=tmp_path) as server:
        eventually(partial(answers, admin))
        assert call(admin, "POST", "/drain", headers=CHANGING).json() == {"drained": True, "unfinished": 0}
        (tmp_path / "open").touch()
        server.says("serving")
        ready = call(admin, "GET", "/readyz")
        assert (ready.status, ready.body) == (503, b"draining")
        assert server.end() == 0


def answers(admin: str) -> bool:
    try:
        return call(admin, "GET", "/livez").status == 200
    except OSError:
        return False


def test_nobody_there_is_told_in_one_line() -> None:
    done = subprocess.run(
        [str(PENSTOCK), "drain", "--admin", "http://127.0.0.1:9"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no admin plane at http://127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr
