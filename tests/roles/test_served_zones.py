"""Two zones as real processes over Redis: a zone serves its own requests, and when it has lost its worker the other
one does."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest
from up_kit import Started, started

from server import BANNER, call, eventually

CONFIG = """\
[redis]
url = "{url}"
namespace = "{namespace}"
"""
ROLES = {
    "gateway": ("gateway", "--port", "0", "--zone", "near"),
    "near batcher": ("batcher", "--zone", "near"),
    "far batcher": ("batcher", "--zone", "far"),
    "near worker": ("worker", "sim:1ms", "--zone", "near"),
    "far worker": ("worker", "sim:1ms", "--zone", "far"),
}


@pytest.fixture
def parts(tmp_path: Path, redis_urls: dict[str, str]) -> Iterator[dict[str, Started]]:
    text = CONFIG.format(url=redis_urls["valkey"], namespace=f"zones-{uuid4().hex[:8]}")
    (tmp_path / "penstock.toml").write_text(text)
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(started(Started, *words, "--admin-port", "0", directory=tmp_path))
            for name, words in ROLES.items()
        }


def crossed(part: Started) -> float:
    text = call(part.admin, "GET", "/metrics").body.decode()
    return sum(
        float(line.split()[1]) for line in text.splitlines() if line.startswith("penstock_crossed_requests")
    )


def health(part: Started) -> dict[str, object]:
    said: dict[str, object] = call(part.admin, "GET", "/internal/health").json()
    return said


def test_a_zone_serves_its_own_requests_and_another_one_those_of_a_zone_that_has_lost_its_worker(
    parts: dict[str, Started],
) -> None:
    found = BANNER.search(parts["gateway"].says("serving"))
    assert found
    url, near, far = found[1], parts["near batcher"], parts["far batcher"]

    def asked() -> int:
        body, headers = b'{"input": "a"}', {"content-type": "application/json"}
        return call(url, "POST", "/v1/inference", body, headers).status

    def zones() -> dict[str, str]:
        """The zone of each role's last process that the near batcher has heard of."""
        return {row["name"].split("-")[0]: row["zone"] for row in health(near)["processes"]}  # type: ignore[attr-defined]

    def settled() -> bool:
        """Each batcher has half of the shards, and knows both workers; the near one has heard of the gateway."""
        said = [health(part) for part in (near, far)]
        if "gateway" not in zones():
            return False
        known = [model["workers_healthy"] == 2 for each in said for model in each["models"].values()]  # type: ignore[attr-defined]
        return [len(each["shards"]) for each in said] == [8, 8] and known == [True, True]  # type: ignore[arg-type]

    eventually(lambda: asked() == 200)
    eventually(settled)
    assert zones()["gateway"] == "near"
    assert health(far)["zone"] == "far"
    before, elsewhere = (
        crossed(near),
        crossed(far),
    )  # until everybody knew everybody, requests may have gone anywhere
    assert [asked() for _ in range(20)] == [200] * 20
    assert crossed(near) == before
    parts["near worker"].process.send_signal(signal.SIGKILL)
    assert [asked() for _ in range(5)] == [200] * 5
    assert crossed(near) > before
    assert crossed(far) == elsewhere
