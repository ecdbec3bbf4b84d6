"""Gateway, batcher and worker as processes of their own at one Redis."""

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from up_kit import Started, started

from server import BANNER, Answer, call, eventually

PATIENT = """\
[redis]
url = "{url}"
namespace = "{namespace}"

[timeouts]
queue = "60s"
processing = "60s"
request = "60s"
"""
# `hold` waits for a file.
FUNCTION = """\
import time
from pathlib import Path


def batchstring(inputs):
    while "hold" in inputs and not (Path(__file__).parent / "go").exists():
        time.sleep(0.01)
    return inputs
"""


@dataclass
class Stack:
    gateway: Started
    batcher: Started
    worker: Started

    @property
    def parts(self) -> dict[str, Started]:
        return {"gateway": self.gateway, "batcher": self.batcher, "worker": self.worker}

    def infer(self, text: bytes) -> Answer:
        found = BANNER.search(self.gateway.says("serving"))
        assert found
        return call(found[1], "POST", "/v1/inference", text, {"content-type": "application/json"})

    def ready(self, part: Started) -> bool:
        return call(part.admin, "GET", "/readyz").status == 200

    def in_flight(self) -> int:
        rows = call(self.worker.admin, "GET", "/internal/workers").json()
        return sum(row["in_flight"] for row in rows)


@pytest.fixture
def stack(tmp_path: Path, redis_urls: dict[str, str]) -> Iterator[Stack]:
    text = PATIENT.format(url=redis_urls["valkey"], namespace=f"roles-{uuid4().hex[:8]}")
    (tmp_path / "penstock.toml").write_text(text)
    (tmp_path / "app.py").write_text(FUNCTION)
    with ExitStack() as stack:
        roles = (("gateway", "--port", "0"), ("batcher",), ("worker", "app.py:batchstring"))
        parts = [
            stack.enter_context(started(Started, *words, "--admin-port", "0", directory=tmp_path))
            for words in roles
        ]
        yield Stack(*parts)


def test_each_role_ends_with_0_once_its_work_is_done_and_the_others_say_what_is_missing(
    stack: Stack, tmp_path: Path
) -> None:
    for name, part in stack.parts.items():
        eventually(partial(stack.ready, part))
        assert call(part.admin, "GET", "/livez").body == b"ok"
        assert b"\npenstock_" in call(part.admin, "GET", "/metrics").body
        assert call(part.admin, "GET", "/internal/health").json()["role"] == name
        assert call(part.admin, "GET", "/internal/workers").status == 200
    eventually(lambda: stack.infer(b'{"input": "first"}').status == 200)

    with ThreadPoolExecutor() as pool:
        answer = pool.submit(stack.infer, b'{"input": "hold"}')
        eventually(lambda: stack.in_flight() == 1)
        stack.worker.process.send_signal(signal.SIGTERM)
        stack.worker.says('"draining"')
        (tmp_path / "go").touch()
        assert stack.worker.process.wait(60) == 0
        assert answer.result().json()["output"] == "hold"

    assert stack.batcher.end() == 0
    admin = stack.gateway.admin
    eventually(lambda: call(admin, "GET", "/readyz").body == b"no batcher is running")
    refused = stack.infer(b'{"input": "too late"}')
    assert (refused.status, refused.json()["error"]) == (503, "SERVICE_OVERLOADED")
    assert refused.headers["retry-after"]
    assert call(admin, "GET", "/livez").body == b"ok"

    assert stack.gateway.end() == 0
    for part in stack.parts.values():
        assert not [line for line in part.lines if "Traceback" in line]
