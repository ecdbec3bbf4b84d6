"""Sizes of batch at a real server with the usual settings: warmed up, and found to be too large for the memory."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from command_line import penstock, said
from up_kit import up

from server import Server, eventually, running

FITS = 16
FUNCTION = f"""
class OutOfMemoryError(RuntimeError):
    '''As torch has one.'''

def batch(inputs):
    if len(inputs) > {FITS}:
        raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
    return [len(inputs) for _ in inputs]

class Model:
    def __init__(self):
        self.sizes = []

    def warmup(self):
        return {{"text": "made"}}

    def __call__(self, inputs):
        outputs = batch(inputs)
        self.sizes.append(len(inputs))
        return [self.sizes for _ in inputs]

class Bad(Model):
    def __call__(self, inputs):
        raise ValueError("not like this")
"""
# Requests wait for a full batch, so that the first one is as large as it may be.
CONFIG = """
[models.batch]
target = "{app}:batch"
policy = "window"
max_wait = "30s"
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("sizes") / "app.py"
    file.write_text(FUNCTION)
    return file


def model_health(server: Server) -> Any:
    (found,) = server.admin("/internal/health").json()["models"].values()
    return found


def test_requests_that_do_not_fit_into_memory_together_are_all_answered_in_smaller_batches(app: Path) -> None:
    with running(config=CONFIG.format(app=app)) as server:

        def ask(number: int) -> int:
            answer = server.post("/v1/inference", {"input": f"text {number}"})
            assert answer.status == 200, answer.body
            size: int = answer.json()["output"]
            return size

        with ThreadPoolExecutor(64) as clients:
            assert max(clients.map(ask, range(64))) <= FITS
            assert max(clients.map(ask, range(64))) <= FITS
        assert model_health(server)["largest_fitting"] == {"batch/0": FITS}
        (worker,) = server.admin("/internal/workers").json()
        assert (worker["largest_fitting"], worker["restarts"], worker["state"]) == (FITS, 0, "idle")
        metrics = server.admin("/metrics").body.decode()
        assert 'penstock_out_of_memory_total{model="batch"} 2.0' in metrics
        assert f'penstock_largest_fitting_batch{{model="batch"}} {FITS}.0' in metrics
        assert server.stderr().count("out of memory: the worker has smaller batches") == 1


def test_a_worker_is_warmed_up_with_what_its_class_makes_and_ready_in_spite_of_its_memory(app: Path) -> None:
    with running(f"{app}:Model") as server:
        sizes = server.post("/v1/inference", {"input": "a"}).json()["output"]
        assert list(dict.fromkeys(sizes)) == [1, 2, 4, 8, 16]
        assert model_health(server)["largest_fitting"] == {"Model/0": FITS}
        assert model_health(server)["new_size_ms"] is not None, (
            "the first run of each was told from the later ones"
        )
        assert model_health(server)["service_ms"]["full"] > 0.0, "it is known before the first request"
        (worker,) = server.admin("/internal/workers").json()
        assert [rung["size"] for rung in worker["warm_up"]] == [1, 2, 4, 8, 16]
        log = server.stderr()
        assert "warming up 5 of 7: 16 in " in log
        assert "warming up 6 of 7: 32 did not fit into memory" in log


def test_nothing_is_run_before_serving_if_that_is_not_wanted(app: Path) -> None:
    for options in (("--no-warmup",), ("--warmup", "a", "--no-warmup")):
        with running(f"{app}:Model", *options) as server:
            assert server.post("/v1/inference", {"input": "a"}).json()["output"] == [1]
            assert "warming up" not in server.stderr()


def test_a_warm_up_that_fails_is_explained_in_one_line(app: Path) -> None:
    ended = penstock("serve", f"{app}:Bad", "--port", "0", "--admin-port", "0", directory=app.parent)
    assert ended.returncode == 2
    assert (
        said(ended.stderr)[-1]
        == f"penstock: {app}:Bad failed its warm-up with one input: Bad raised ValueError"
    )
    assert "Traceback" not in ended.stderr


def test_in_idle_moments_the_sizes_that_did_not_come_are_run(app: Path) -> None:
    idle = {"PENSTOCK_MODEL_WARM_WHEN_IDLE": "true"}
    with running(f"{app}:Model", "--no-warmup", "--max-batch", "4", environment=idle) as server:
        assert server.post("/v1/inference", {"input": "a"}).json()["output"] == [1]

        def warmed() -> bool:
            (worker,) = server.admin("/internal/workers").json()
            return [rung["size"] for rung in worker["warm_up"]] == [2, 4]

        eventually(warmed)
        assert server.post("/v1/inference", {"input": "a"}).json()["output"] == [1, 2, 2, 4, 4, 1]


def test_over_redis_batchers_know_the_times_of_a_warm_up_and_the_memory(app: Path) -> None:
    with up(f"{app}:Model") as whole:

        def health() -> Any:
            return whole.admin_of("gateway-1", "/internal/health").json()["models"]["Model"]

        eventually(lambda: health()["capacity_rps"] > 0)  # before the first request
        assert list(health()["largest_fitting"].values()) == [FITS]

        def ask(number: int) -> int:
            body = json.dumps({"input": f"text {number}"}).encode()
            answer = whole.ask("gateway-1", "POST", "/v1/inference", body)
            assert answer.status == 200, answer.body
            sizes: list[int] = answer.json()["output"]
            return sizes[-1]

        with ThreadPoolExecutor(64) as clients:
            assert max(clients.map(ask, range(256))) <= FITS
        (worker,) = whole.admin_of("gateway-1", "/internal/workers").json()
        assert worker["restarts"] == 0
