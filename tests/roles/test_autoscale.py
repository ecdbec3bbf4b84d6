"""Real workers that come and go with the load: under `penstock up --autoscale`, and as a Kubernetes Deployment,
whose API is a real HTTPS server of ours.

The usual settings would take minutes: here the windows and the cool-down are short. The rules are the same.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from crowd import JSON, crowd
from up_kit import Started, Up, started, up

from kubernetes_api import Api, serving
from server import BANNER, call, eventually

FUNCTION = """\
import time


def batchstring(inputs):
    time.sleep(0.2)
    return inputs
"""
QUICK = """\
[autoscaler]
interval = "200ms"
fast = "1s"
slow = "4s"
cool_down = "2s"
drain = "1s"
[timeouts]
queue = "60s"
processing = "60s"
request = "60s"
"""
MANY = 8  # clients: what waits of them is more than one worker should have, at one request of 200 ms each


def scale_of(admin: str) -> Any:
    answer = call(admin, "GET", "/internal/scale")
    return answer.json() if answer.status == 200 else None


def ready(admin: str) -> int:
    """How many workers are ready, by what the autoscaler says."""
    said = scale_of(admin)
    return -1 if said is None else sum(model["ready"] for model in said["models"].values())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(FUNCTION)
    (tmp_path / "penstock.toml").write_text(QUICK)
    return tmp_path


@pytest.fixture
def whole(folder: Path) -> Iterator[Up]:
    target, config = f"{folder / 'app.py'}:batchstring", str(folder / "penstock.toml")
    options = ("--config", config, "--max-batch", "1", "--autoscale", "1..2")
    with up(target, *options, more_ports=5) as running:
        yield running
        assert running.end() == 0, running.lines


def test_workers_come_and_go_with_the_load_and_no_request_fails(whole: Up) -> None:
    url = whole.ports["gateway-1"]
    banner = whole.says("  autoscaler-1 ")
    admin = banner.split()[-1].removesuffix("/internal/health")

    with crowd(url, MANY) as asked:
        eventually(lambda: ready(admin) == 2)
    with crowd(url, 1, pause=1.0) as few:
        eventually(lambda: ready(admin) == 1)
    assert asked.statuses == few.statuses == {200}
    assert whole.says("drained")


class Cluster:
    """A Deployment: as many worker processes as its API was asked for."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack, self._folder = stack, folder
        self.pods: list[Started] = []
        self.gone: list[Started] = []

    def scale(self, replicas: int) -> None:
        while len(self.pods) < replicas:
            words = ("worker", "app.py:batchstring", "--max-batch", "1", "--admin-port", "0")
            self.pods.append(self._stack.enter_context(started(Started, *words, directory=self._folder)))
        while len(self.pods) > replicas:
            self.gone.append(self.pods.pop())
            self.gone[-1].process.terminate()


@contextmanager
def deployment(folder: Path, monkeypatch: pytest.MonkeyPatch, api: Api) -> Iterator[None]:
    """The API in a thread of its own, and what a pod knows of it in the environment."""
    is_there, over = threading.Event(), threading.Event()

    async def serve() -> None:
        async with serving(api, folder) as (_, environ):
            for name, value in environ.items():
                monkeypatch.setenv(name, value)
            is_there.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        assert is_there.wait(60)
        yield
    finally:
        over.set()
        thread.join()


def test_a_deployment_is_scaled_by_one_of_two_autoscalers_and_no_request_fails(
    folder: Path, redis_urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace = f"scale-{uuid4().hex[:8]}"
    at_redis = f'[redis]\nurl = "{redis_urls["valkey"]}"\nnamespace = "{namespace}"\n'
    (folder / "penstock.toml").write_text(QUICK + at_redis)
    pod = folder / "account"
    pod.mkdir()
    acting = ("--autoscale", "1..2", "--act", "kubernetes", "--deployment", "workers", "--account", str(pod))
    with ExitStack() as stack:
        cluster = Cluster(stack, folder)
        api = Api(replicas=1, on_scale=cluster.scale)
        stack.enter_context(deployment(pod, monkeypatch, api))
        cluster.scale(1)
        gateway, batcher, first, second = (
            stack.enter_context(started(Started, *words, "--admin-port", "0", directory=folder))
            for words in (
                ("gateway", "--port", "0"), ("batcher",), ("autoscaler", *acting), ("autoscaler", *acting),
            )
        )  # fmt: skip
        found = BANNER.search(gateway.says("serving"))
        assert found
        eventually(lambda: call(gateway.admin, "GET", "/readyz").status == 200)
        eventually(lambda: call(found[1], "POST", "/v1/inference", b'{"input": "a"}', JSON).status == 200)

        with crowd(found[1], MANY) as asked:
            eventually(lambda: ready(first.admin) == 2)
            assert api.replicas == 2
            leads = [b"\npenstock_autoscaler_leads 1" in call(each.admin, "GET", "/metrics").body
                     for each in (first, second)]  # fmt: skip
            assert sorted(leads) == [False, True]
            eventually(lambda: ready(second.admin) == 2)  # whoever is asked says the same
            leader, other = (first, second) if leads[0] else (second, first)
            leader.process.kill()
            eventually(lambda: b"\npenstock_autoscaler_leads 1" in call(other.admin, "GET", "/metrics").body)
        with crowd(found[1], 1, pause=1.0) as few:
            eventually(lambda: api.replicas == 1)
            [gone] = cluster.gone
            assert gone.process.wait(60) == 0
        assert asked.statuses == few.statuses == {200}
        assert other.end() == batcher.end() == gateway.end() == 0
