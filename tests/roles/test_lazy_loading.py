"""A function that loads its model in its first call, at the default settings."""

import json
from pathlib import Path

from up_kit import up

from server import Answer, eventually, held, running

FUNCTION = """
import time
from pathlib import Path

def batch(inputs):
    while not (Path(__file__).parent / "open").exists():
        time.sleep(0.01)
    return inputs
"""


def test_a_model_that_loads_for_longer_than_any_batch_may_take_is_waited_for_and_serves(
    tmp_path: Path,
) -> None:
    """Its first call ends when the test says so, after the first 504: later than timeouts.processing."""
    with running(held(tmp_path)) as server:
        assert server.admin("/readyz").status == 200, "else nobody would send it its first request"
        first = server.post("/v1/inference", {"input": "a"})
        assert (first.status, first.json()["error"]) == (504, "DEADLINE_EXCEEDED")
        assert first.json()["message"] == (
            "no answer within the 4 s that timeouts.request allows: the model is still loading"
        )
        unready = server.admin("/readyz")
        assert unready.status == 503
        assert b"loading batch" in unready.body
        meanwhile = server.post("/v1/inference", {"input": "b"})
        assert (meanwhile.status, meanwhile.json()["message"]) == (503, "the model is still loading")
        assert int(meanwhile.headers["Retry-After"]) >= 1
        (worker,) = server.admin("/internal/workers").json()
        assert (worker["state"], worker["restarts"]) == ("loading", 0)
        assert "timeouts.first_batch" in server.stderr()
        server.open()
        eventually(lambda: server.admin("/readyz").status == 200)
        assert server.post("/v1/inference", {"input": "c"}).json()["output"] == "c"
        (worker,) = server.admin("/internal/workers").json()
        assert worker["restarts"] == 0, server.stderr()


def test_over_redis_it_is_waited_for_too_and_every_part_says_so(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(FUNCTION)
    with up(f"{tmp_path / 'app.py'}:batch") as whole:

        def ask() -> Answer:
            return whole.ask("gateway-1", "POST", "/v1/inference", json.dumps({"input": "a"}).encode())

        assert whole.admin_of("gateway-1", "/readyz").status == 200, "else nobody would send a first request"
        assert ask().status == 504
        for part in ("gateway-1", "worker-1"):
            unready = whole.admin_of(part, "/readyz")
            assert (unready.status, b"loading batch" in unready.body) == (503, True), unready.body
        meanwhile = ask()
        assert (meanwhile.status, meanwhile.json()["message"]) == (503, "the model is still loading")
        assert int(meanwhile.headers["Retry-After"]) >= 1
        (worker,) = whole.admin_of("gateway-1", "/internal/workers").json()
        assert (worker["state"], worker["restarts"]) == ("loading", 0)
        (tmp_path / "open").touch()
        eventually(lambda: whole.admin_of("gateway-1", "/readyz").status == 200)
        eventually(lambda: ask().status == 200)
        (worker,) = whole.admin_of("gateway-1", "/internal/workers").json()
        assert worker["restarts"] == 0, whole.lines
