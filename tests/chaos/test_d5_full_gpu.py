"""A worker that says it is nearly full is given nothing until it has room again."""

from pathlib import Path

import pytest

from installation import installation, patiently
from server import Answer, call, eventually, running

MODEL = """
from pathlib import Path

LEVEL = Path({level!r})


def batchstring(inputs: list[str]) -> list[str]:
    return inputs


def pressure() -> float:
    return float(LEVEL.read_text())
"""
BODY, HEADERS = b'{"input": "a"}', {"content-type": "application/json"}


class Gpu:
    """A function that is as full as it is told."""

    def __init__(self, folder: Path, level: float) -> None:
        self._level = folder / "level"
        self.set(level)
        (folder / "model.py").write_text(MODEL.format(level=str(self._level)))
        self.target = f"{folder / 'model.py'}:batchstring"

    def set(self, level: float) -> None:
        """Replaced as a whole, since it may just be read."""
        fresh = self._level.with_suffix(".new")
        fresh.write_text(str(level))
        fresh.replace(self._level)


def ask(url: str) -> Answer:
    return call(url, "POST", "/v1/inference", BODY, HEADERS)


def check_refused(answer: Answer) -> None:
    assert (answer.status, answer.json()["error"]) == (503, "SERVICE_OVERLOADED")
    assert int(answer.headers["retry-after"]) >= 1


def test_a_full_worker_refuses_with_a_time_to_come_back_until_it_has_room(tmp_path: Path) -> None:
    gpu = Gpu(tmp_path, 0.95)
    with running(gpu.target) as server:
        assert ask(server.url).status == 200  # and with its output it says how full it is
        (row,) = server.admin("/internal/workers").json()
        assert (row["state"], row["pressure"]) == ("full", 0.95)
        check_refused(ask(server.url))
        assert server.metric("penstock_worker_pressure", model="batchstring") == 0.95
        assert server.metric("penstock_workers", model="batchstring", state="full") == 1
        assert server.admin("/readyz").status == 503

        gpu.set(0.85)  # it has let go of some, and not of enough
        eventually(lambda: server.admin("/internal/workers").json()[0]["pressure"] == 0.85, 60.0)
        check_refused(ask(server.url))

        gpu.set(0.5)
        eventually(lambda: server.admin("/readyz").status == 200, 60.0)
        assert [ask(server.url).status for _ in range(3)] == [200] * 3
        (row,) = server.admin("/internal/workers").json()
        assert (row["state"], row["pressure"], row["restarts"], row["batches"]) == ("idle", 0.5, 0, 4)
        assert server.metric("penstock_workers", model="batchstring", state="full") == 0


@pytest.mark.timeout(120)
def test_a_full_worker_is_not_counted_upon_over_redis_either(tmp_path: Path) -> None:
    gpu = Gpu(tmp_path, 0.95)
    with installation(tmp_path, gateways=1, batchers=1, workers=1, slots=1, target=gpu.target) as site:
        (gateway,) = site.gateways
        assert ask(site.url).status == 200
        patiently(lambda: gateway.admin("/internal/workers").json()[0]["status"] == "degraded")
        assert gateway.admin("/internal/workers").json()[0]["pressure"] == 0.95
        patiently(lambda: site.batchers[0].health()["models"]["batchstring"]["workers_healthy"] == 0)
        check_refused(ask(site.url))

        gpu.set(0.5)
        site.wait_until_known()
        assert ask(site.url).status == 200
        (row,) = site.workers[0].admin("/internal/workers").json()
        assert (row["status"], row["pressure"], row["restarts"], row["batches"]) == ("healthy", 0.5, 0, 2)
