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

    def asked() -> int:
        body, headers = b'{"input": "a"}', {"content-type": "application/json"}
        return call(url, "POST", "/v1/inference", body, headers, timeout=90.0).status

    def shared() -> bool:
        shards = [call(part.admin, "GET", "/internal/health").json()["shards"] for part in (dies, lives)]
        return [len(each) for each in shards] == [SHARDS // 2, SHARDS // 2]

    eventually(shared)
    eventually(lambda: asked() == 200)
    dies.process.send_signal(signal.SIGKILL)
    assert [asked() for _ in range(SHARDS)] == [200] * SHARDS  # they take the shards in turn
