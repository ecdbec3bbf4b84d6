"""What a server that is killed without warning means, as docs/guarantees.md tells it."""

from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException

import psutil
import pytest

from server import Server, eventually, running

PATIENT = '[timeouts]\nqueue = "60s"\nprocessing = "60s"\nrequest = "60s"\n'
SLEEPER = "import threading\n\ndef batchstring(inputs):\n    threading.Event().wait()\n"


def kill(server: Server) -> None:
    server.process.kill()
    server.process.wait(60)


def test_accepted_requests_break_with_their_connection() -> None:
    with running("sim:50s", config=PATIENT) as server, ThreadPoolExecutor() as pool:
        answer = pool.submit(server.post, "/v1/inference", {"input": "hello"})
        eventually(lambda: server.health()["waiting_clients"] == 1)
        kill(server)
        with pytest.raises((HTTPException, OSError)):
            answer.result()


def test_tasks_are_lost_with_their_results() -> None:
    with running("sim:1ms") as server:
        task = server.post("/v1/inference", {"input": "hello"}, {"prefer": "respond-async"}).json()["task_id"]
        assert server.get(f"/v1/result/{task}?wait_ms=20000").json()["status"] == "SUCCESS"
        kill(server)
    with running("sim:1ms") as server:
        assert server.get(f"/v1/result/{task}").status == 404


def test_no_process_of_a_function_is_left_behind(tmp_path_factory: pytest.TempPathFactory) -> None:
    code = tmp_path_factory.mktemp("code") / "sleeper.py"
    code.write_text(SLEEPER)
    with running(f"{code}:batchstring", "--workers", "2", config=PATIENT) as server:
        with ThreadPoolExecutor() as pool:
            answer = pool.submit(server.post, "/v1/inference", {"input": "hello"})
            eventually(lambda: server.health()["waiting_clients"] == 1)
            children = psutil.Process(server.process.pid).children(recursive=True)
            assert children
            kill(server)
            with pytest.raises((HTTPException, OSError)):
                answer.result()
        _, alive = psutil.wait_procs(children, timeout=60)
        assert not alive
