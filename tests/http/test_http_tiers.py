"""D3 and C3 over HTTP: lower tiers are refused first and told for how long; a tier may have its own time limits."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from server import Answer, Server, eventually, running

SERVICE, WAITING = 0.4, 10
CONFIG = """
[timeouts]
queue = "30s"
request = "60s"
[tiers]
default = "paid"
[tiers.levels.enterprise]
rank = 0
[tiers.levels.paid]
rank = 1
[tiers.levels.free]
rank = 2
[tiers.levels.hurried]
rank = 3
request_timeout = "100ms"
[tenants.acme]
tier = "enterprise"
[tenants.last]
tier = "hurried"
[models.sim]
target = "sim:400ms"
max_batch = 1
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(config=CONFIG) as server:
        yield server


def ask(server: Server, client: str, **fields: object) -> Answer:
    return server.post("/v1/inference", {"input": "a", "client_id": client, **fields})


def test_a_tier_s_own_time_limit_holds_unless_the_client_brings_one(server: Server) -> None:
    assert ask(server, "somebody").status == 200
    assert ask(server, "last").status in (503, 504)
    assert ask(server, "last", timeout_ms=30_000).status == 200


def test_with_a_long_queue_all_but_the_best_tier_are_told_when_to_come_back(
    server: Server,
) -> None:
    assert ask(server, "somebody").status == 200
    with ThreadPoolExecutor(WAITING) as pool:
        waiting = [pool.submit(ask, server, "acme") for _ in range(WAITING)]
        eventually(lambda: server.health()["queue_depth"] >= WAITING - 2, 60.0)
        model = server.health()["models"]["sim"]
        refusals = [ask(server, who, timeout_ms=60_000) for who in ("last", "somebody")]
        answers = [task.result() for task in waiting]
    assert 1.0 < model["warning_depth"] < model["critical_depth"] < WAITING - 2
    for refused in refusals:
        assert (refused.status, refused.json()["error"]) == (503, "SERVICE_OVERLOADED")
        assert "tier" in refused.json()["message"]
        assert 1 <= int(refused.headers["retry-after"]) <= WAITING
        assert 0 < refused.json()["retry_after_ms"] <= 1e3 * WAITING * 2 * SERVICE
    lowest, better = (refused.json()["retry_after_ms"] for refused in refusals)
    assert lowest > better
    assert [answer.status for answer in answers if answer.status != 200] == [], [a.body for a in answers]
