"""SIGTERM and Ctrl-C drain; a second Ctrl-C ends at once."""

import os
import signal
import subprocess
from concurrent.futures import Future, ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path

import pytest

from server import PENSTOCK, Answer, Server, eventually, running

PATIENT = '[timeouts]\nqueue = "60s"\nprocessing = "60s"\nrequest = "60s"\n'
PATIENT_DRAIN = f'{PATIENT}[server]\ndrain = "60s"\n'
HOLD = """\
import time
from pathlib import Path


def batchstring(inputs):
    while not (Path(__file__).parent / "go").exists():
        time.sleep(0.01)
    return inputs
"""


@pytest.fixture
def held(tmp_path: Path) -> Path:
    """A function whose batches last until there is a file `go` beside it."""
    (tmp_path / "held.py").write_text(HOLD)
    return tmp_path


def asked(pool: ThreadPoolExecutor, server: Server) -> "Future[Answer]":
    """A request that has reached its worker."""
    answer = pool.submit(server.post, "/v1/inference", {"input": "hello"})
    eventually(lambda: any(worker["in_flight"] for worker in server.admin("/internal/workers").json()))
    return answer


def failed(answer: "Future[Answer]") -> bool:
    """The server went away under it: a 5xx, or a broken connection; never something that looks like an output."""
    try:
        return answer.result().status in (500, 503)
    except (HTTPException, OSError):
        return True


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_request_in_flight_finish_and_exits_with_0(
    kind: signal.Signals, held: Path
) -> None:
    target = f"{held / 'held.py'}:batchstring"
    with running(target, config=PATIENT_DRAIN) as server, ThreadPoolExecutor() as pool:
        answer = asked(pool, server)
        server.process.send_signal(kind)
        eventually(lambda: '"draining"' in server.stderr())
        (held / "go").touch()
        assert answer.result().json()["output"] == "hello"
        assert server.process.wait(60) == 0
        assert '"drained"' in server.stderr()


def test_an_idle_server_ends_at_once_on_ctrl_c() -> None:
    with running("sim:1ms") as server:
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(60) == 0
        assert "Traceback" not in server.stderr()


def test_a_signal_that_comes_while_it_ends_changes_nothing() -> None:
    with running("sim:1ms") as server:
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: '"drained"' in server.stderr())
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0


def test_while_draining_it_is_not_ready_and_refuses_with_a_wait(held: Path) -> None:
    target = f"{held / 'held.py'}:batchstring"
    with running(target, config=PATIENT_DRAIN) as server, ThreadPoolExecutor() as pool:
        answer = asked(pool, server)
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: server.admin("/readyz").status == 503)
        assert server.admin("/readyz").body == b"draining"
        assert server.admin("/livez").status == 200
        refused = server.post("/v1/inference", {"input": "late"})
        assert (refused.status, refused.json()["error"]) == (503, "SERVICE_DRAINING")
        assert int(refused.headers["retry-after"]) >= 1
        (held / "go").touch()
        assert answer.result().status == 200


def test_a_second_ctrl_c_ends_at_once_and_says_how_many_were_left() -> None:
    with running("sim:50s", config=PATIENT) as server, ThreadPoolExecutor() as pool:
        answer = asked(pool, server)
        server.process.send_signal(signal.SIGINT)
        eventually(lambda: '"draining"' in server.stderr())
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(60) == 0
        assert '"given_up": 1' in server.stderr()
        assert failed(answer)


def test_what_takes_longer_than_the_drain_is_cut_off() -> None:
    with (
        running("sim:50s", config=f'{PATIENT}[server]\ndrain = "50ms"\n') as server,
        ThreadPoolExecutor() as pool,
    ):
        answer = asked(pool, server)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
        assert '"given_up": 1' in server.stderr()
        assert failed(answer)


def test_a_signal_while_the_function_still_loads_ends_it_with_0(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import sys, threading\nprint('loading', file=sys.stderr, flush=True)\nthreading.Event().wait()\n"
        "def batchstring(inputs): ...\n"
    )
    command = [str(PENSTOCK), "serve", "slow.py:batchstring", "--port", "0", "--admin-port", "0"]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    with subprocess.Popen(
        command, cwd=tmp_path, env=inherited, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stderr is not None
        try:
            assert any("loading" in line for line in process.stderr)  # after what the server says of itself
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()
