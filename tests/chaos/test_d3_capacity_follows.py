"""When half of the workers die, what the server counts on and what it says of itself follow."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from server import Server, eventually, running

MODEL = """
import time
from pathlib import Path

assert not Path({forbidden!r}).exists(), "no GPU is left for it"


def batchstring(inputs: list[str]) -> list[str]:
    time.sleep(0.05)
    return inputs
"""
DEPTHS = ("warning_depth", "critical_depth")


def gpus(server: Server) -> list[psutil.Process]:
    """The processes that run the function."""
    children = psutil.Process(server.process.pid).children(recursive=True)
    return [child for child in children if "penstock.adapters.backends.child" in child.cmdline()]


def test_half_of_the_workers_killed_is_half_of_the_capacity_and_of_the_depths_until_they_are_back(
    tmp_path: Path,
) -> None:
    forbidden = tmp_path / "forbidden"
    (tmp_path / "model.py").write_text(MODEL.format(forbidden=str(forbidden)))
    with running(f"{tmp_path / 'model.py'}:batchstring", "--workers", "4", "--max-batch", "16") as server:

        def said() -> Mapping[str, Any]:
            model: Mapping[str, Any] = server.health()["models"]["batchstring"]
            return model

        eventually(lambda: said()["workers_healthy"] == 4, 60.0)
        assert [said()[depth] for depth in DEPTHS] == [None, None], "nothing has been seen yet"
        for _ in range(3):
            assert server.post("/v1/inference", {"input": "a"}).status == 200
        whole = said()
        forbidden.touch()
        for process in gpus(server)[:2]:
            process.kill()
        eventually(lambda: said()["workers_healthy"] == 2, 60.0)
        half = said()
        assert half["capacity_rps"] == pytest.approx(whole["capacity_rps"] / 2, rel=0.01)
        assert server.metric("penstock_capacity_rps", model="batchstring") == pytest.approx(
            half["capacity_rps"], rel=0.01
        )
        for depth in DEPTHS:
            assert half[depth] == pytest.approx(whole[depth] / 2, rel=0.01)
        forbidden.unlink()
        eventually(lambda: said()["workers_healthy"] == 4, 60.0)
        assert said()["capacity_rps"] == pytest.approx(whole["capacity_rps"], rel=0.01)
