"""A rolling change of tiers: a gateway that has more of them than the batcher, and whoever asks it is served."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest
from up_kit import Started, started

from server import BANNER, Answer, call, eventually

REDIS = """\
[redis]
url = "{url}"
namespace = "{namespace}"
"""
MORE = """\
[tiers]
default = "bronze"
[tiers.levels.gold]
rank = 0
[tiers.levels.silver]
rank = 1
[tiers.levels.copper]
rank = 2
[tiers.levels.tin]
rank = 3
[tiers.levels.bronze]
rank = 4
"""
FUNCTION = "def echo(inputs):\n    return inputs\n"


@pytest.fixture
def parts(tmp_path: Path, redis_urls: dict[str, str]) -> Iterator[list[Started]]:
    """A gateway with five tiers, a batcher and a worker with the usual three."""
    text = REDIS.format(url=redis_urls["valkey"], namespace=f"tiers-{uuid4().hex[:8]}")
    (tmp_path / "usual.toml").write_text(text)
    (tmp_path / "more.toml").write_text(text + MORE)
    (tmp_path / "app.py").write_text(FUNCTION)
    roles = (
        ("gateway", "--port", "0", "--config", "more.toml"),
        ("batcher", "--config", "usual.toml"),
        ("worker", "app.py:echo", "--config", "usual.toml"),
    )
    with ExitStack() as stack:
        yield [
            stack.enter_context(started(Started, *words, "--admin-port", "0", directory=tmp_path))
            for words in roles
        ]


def test_a_request_of_a_tier_that_the_batcher_does_not_know_is_served_and_the_batcher_lives(
    parts: list[Started],
) -> None:
    gateway, batcher, _ = parts
    found = BANNER.search(gateway.says("serving"))
    assert found
    url = found[1]

    def ask() -> Answer:
        return call(url, "POST", "/v1/inference", b'{"input": "x"}', {"content-type": "application/json"})

    eventually(lambda: call(gateway.admin, "GET", "/readyz").status == 200)
    eventually(lambda: ask().status == 200)
    assert [ask().status for _ in range(20)] == [200] * 20
    assert call(batcher.admin, "GET", "/livez").body == b"ok"
    counted = b'penstock_set_aside_total{kind="request of an unknown tier"} '
    assert counted in call(batcher.admin, "GET", "/metrics").body
    eventually(lambda: "tier 4 of 3" in call(batcher.admin, "GET", "/internal/aside").json()[0]["why"])
