"""Over HTTP: lower tiers are refused first and told for how long; a tier may have its own time limits."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from server import PATIENT, Answer, Server, eventually, running

SERVICE, WAITING = 0.4, 10
# It takes its time over each batch. A batch in hand while requests are refused takes as long as the test likes.
FUNCTION = f"""
import os, time
def batch(inputs):
    time.sleep({SERVICE})
    while not os.path.exists("open"):
        time.sleep(0.01)
    return inputs
"""
CONFIG = f"""{PATIENT}
[tiers]
order = "strict"  # under weighted tiers a lower one keeps its part however long the queue
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
[models.slow]
target = "slow.py:batch"
max_batch = 1
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    file = tmp_path_factory.mktemp("functions") / "slow.py"
    file.write_text(FUNCTION)
    with running(config=CONFIG.replace("slow.py", str(file))) as server:
        server.open()
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
    server.shut()
    with ThreadPoolExecutor(WAITING) as pool:
        waiting = [pool.submit(ask, server, "acme") for _ in range(WAITING)]
        eventually(lambda: server.health()["queue_depth"] == WAITING - 1)
        model = server.health()["models"]["slow"]
        refusals = [ask(server, who, timeout_ms=60_000) for who in ("last", "somebody")]
        server.open()
        answers = [task.result() for task in waiting]
    assert 1.0 < model["warning_depth"] < model["critical_depth"] < WAITING - 1
    drains_in = WAITING / model["capacity_rps"]
    for refused in refusals:
        assert (refused.status, refused.json()["error"]) == (503, "SERVICE_OVERLOADED")
        assert "tier" in refused.json()["message"]
        assert 1 <= int(refused.headers["retry-after"]) <= drains_in + 1
        assert 0 < refused.json()["retry_after_ms"] <= 1e3 * drains_in
    lowest, better = (refused.json()["retry_after_ms"] for refused in refusals)
    assert lowest > better
    assert [answer.status for answer in answers if answer.status != 200] == [], [a.body for a in answers]
