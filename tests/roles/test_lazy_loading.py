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


HANGS = """
import time

def batch(inputs):
    while "hang" in inputs:
        time.sleep(0.01)
    return inputs
"""
WARNED = "the only worker has no warm-up"


def test_a_first_input_that_hangs_is_waited_for_as_if_it_loaded_and_no_longer(tmp_path: Path) -> None:
    """With one worker. At the default, 2 minutes, nobody would be served until then."""
    (tmp_path / "app.py").write_text(HANGS)
    limits = "[timeouts]\ntimeout = '1s'\nfirst_batch = '3s'\n"  # else the test takes two minutes
    with running(f"{tmp_path / 'app.py'}:batch", config=limits) as server:
        assert WARNED in server.stderr()
        assert server.post("/v1/inference", {"input": "hang"}).status == 504
        meanwhile = server.post("/v1/inference", {"input": "a"})
        assert (meanwhile.status, meanwhile.json()["message"]) == (503, "the model is still loading")
        eventually(lambda: server.post("/v1/inference", {"input": "a"}).status == 200)
        (worker,) = server.admin("/internal/workers").json()
        assert worker["restarts"] == 1, server.stderr()
        assert server.stderr().count(WARNED) == 1


def test_after_a_warm_up_a_first_input_that_hangs_is_cut_as_any_other(tmp_path: Path) -> None:
    """With one worker, and with 2 minutes for a first batch, for which this test does not wait."""
    (tmp_path / "app.py").write_text(HANGS)
    limits = "[timeouts]\ntimeout = '1s'\n"  # the test would take four times as long at the default
    with running(f"{tmp_path / 'app.py'}:batch", "--warmup", "a", config=limits) as server:
        assert WARNED not in server.stderr()
        assert server.post("/v1/inference", {"input": "hang"}).status == 504
        eventually(lambda: server.post("/v1/inference", {"input": "a"}).status == 200)
        (worker,) = server.admin("/internal/workers").json()
        assert worker["restarts"] == 1, server.stderr()
        assert "timeouts.first_batch" not in server.stderr()
