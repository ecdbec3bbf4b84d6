"""One of two batchers is killed, and the other takes over what lay in its shards."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest
from up_kit import Started, started

from server import call, eventually

SHARDS = 16
# The lease is longer than the queue limit: what waits for the takeover has outlived that limit by then.
CONFIG = """\
[redis]
url = "{url}"
namespace = "{namespace}"
lease = "3s"
[timeouts]
queue = "1s"
processing = "60s"
request = "60s"
"""


@pytest.fixture
def parts(tmp_path: Path, redis_urls: dict[str, str]) -> Iterator[list[Started]]:
    text = CONFIG.format(url=redis_urls["valkey"], namespace=f"inherited-{uuid4().hex[:8]}")
    (tmp_path / "penstock.toml").write_text(text)
    with ExitStack() as stack:
        roles = (("gateway", "--port", "0"), ("batcher",), ("batcher",), ("worker", "sim:0ms"))
        yield [
            stack.enter_context(started(Started, *words, "--admin-port", "0", directory=tmp_path))
            for words in roles
        ]


def test_what_a_dead_batcher_left_is_neither_refused_nor_expired_by_the_next(parts: list[Started]) -> None:
    gateway, dies, lives, _ = parts
    url = gateway.says("serving").split()[1].removesuffix("/v1/inference")

    def asked() -> str:
        body, headers = b'{"input": "a"}', {"content-type": "application/json"}
        answer = call(url, "POST", "/v1/inference", body, headers, timeout=90.0)
        return "" if answer.status == 200 else str(answer.json())

    def shared() -> bool:
        said = [call(part.admin, "GET", "/internal/health").json() for part in (dies, lives)]
        half = [len(each["shards"]) == SHARDS // 2 for each in said]
        known = [model["workers_healthy"] == 1 for each in said for model in each["models"].values()]
        return half == known == [True, True]

    eventually(lambda: not asked())
    eventually(shared)
    dies.process.send_signal(signal.SIGKILL)
    assert [asked() for _ in range(SHARDS)] == [""] * SHARDS  # they take the shards in turn
