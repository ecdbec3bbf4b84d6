"""429 is the asker's own quota and 503 is our capacity; what happens when both could be said."""

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from server import HUNG, PATIENT, Answer, Server, eventually, held, running

CONFIG = f"""{PATIENT}
[limits]
max_queue = 1
[tiers]
default = "three"
[tiers.levels.three]
rank = 0
requests_per_minute = 3
[tiers.levels.one]
rank = 1
requests_per_minute = 1
[tenants.spent]
tier = "one"
"""


@contextmanager
def served(folder: Path) -> Iterator[Server]:
    """It answers when it is opened; `spent` has had its one request of the minute."""
    # One request alone is no full batch, so it is not handed to the worker while that is busy.
    with running(held(folder), "--max-batch", "2", config=CONFIG) as server:
        server.open()
        assert ask(server, "spent").status == 200
        server.shut()
        yield server


def ask(server: Server, tenant: str) -> Answer:
    return server.post("/v1/inference", {"input": "a", "client_id": tenant}, timeout=90.0)


def told(answer: Answer) -> tuple[int, str]:
    assert int(answer.headers["retry-after"]) >= 1
    return answer.status, answer.json()["error"]


def test_overloaded_it_says_503_to_who_has_quota_left_and_429_to_who_has_not_and_only_503_is_free(
    tmp_path: Path,
) -> None:
    with served(tmp_path) as server, ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, server, "acme")
        eventually(lambda: any(worker["in_flight"] for worker in server.admin("/internal/workers").json()))
        second = pool.submit(ask, server, "acme")
        eventually(lambda: server.health()["queue_depth"] == 1)
        for _ in range(5):
            assert told(ask(server, "acme")) == (503, "SERVICE_OVERLOADED")
        assert told(ask(server, "spent")) == (429, "QUOTA_EXCEEDED")
        server.open()
        assert (first.result().status, second.result().status) == (200, 200)
        third = ask(server, "acme")
        assert (third.status, third.headers["ratelimit-remaining"]) == (200, "0")  # five 503 were not counted
        assert told(ask(server, "acme")) == (429, "QUOTA_EXCEEDED")


def test_shutting_down_it_says_503_to_everybody_since_another_server_may_do_better(tmp_path: Path) -> None:
    with served(tmp_path) as server, ThreadPoolExecutor(1) as pool:
        first = pool.submit(ask, server, "acme")
        eventually(lambda: any(worker["in_flight"] for worker in server.admin("/internal/workers").json()))
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: server.admin("/readyz").status == 503)
        for tenant in ("acme", "spent"):
            assert told(ask(server, tenant)) == (503, "SERVICE_DRAINING")
        server.open()
        assert first.result().status == 200
        assert server.process.wait(HUNG) == 0
