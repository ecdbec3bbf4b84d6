"""D2 over HTTP: a tenant is kept to its own quota, told how it stands, and nobody else notices."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from server import Answer, Server, eventually, running

LIMIT = 5
CONFIG = f"""
[tiers]
default = "paid"
[tiers.levels.paid]
rank = 0
[tiers.levels.free]
rank = 1
requests_per_minute = {LIMIT}
[tiers.levels.narrow]
rank = 2
in_flight = 1
[tenants.beta]
tier = "free"
[tenants.gamma]
tier = "free"
[tenants.slow]
tier = "narrow"
[models.sim]
target = "sim:300ms"
max_batch = 64
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(config=CONFIG) as server:
        yield server


def ask(server: Server, client: str | None, **headers: str) -> Answer:
    body = {"input": "a"} if client is None else {"input": "a", "client_id": client}
    return server.post("/v1/inference", body, headers)


def test_over_its_quota_a_tenant_gets_429_with_a_time_to_come_back_and_others_are_served(
    server: Server,
) -> None:
    with ThreadPoolExecutor(LIMIT) as pool:
        answers = list(pool.map(lambda _: ask(server, "beta"), range(LIMIT)))
    assert [answer.status for answer in answers] == [200] * LIMIT
    assert {answer.headers["ratelimit-limit"] for answer in answers} == {str(LIMIT)}
    left = sorted(int(answer.headers["ratelimit-remaining"]) for answer in answers)
    assert left == list(range(LIMIT))
    over = ask(server, "beta")
    assert (over.status, over.json()["error"]) == (429, "QUOTA_EXCEEDED")
    assert str(LIMIT) in over.json()["message"]
    assert 1 <= int(over.headers["retry-after"]) <= 60
    assert over.headers["ratelimit-remaining"] == "0"
    assert ask(server, "beta", prefer="respond-async").status == 429
    said = json.loads(server.get("/openapi.json").body)["components"]["responses"]["OverQuota"]["headers"]
    assert {name.lower() for name in said} <= {name.lower() for name in over.headers}
    assert ask(server, "gamma").status == 200
    unlimited = ask(server, None)
    assert unlimited.status == 200
    assert "ratelimit-limit" not in unlimited.headers


def test_in_flight_is_counted_until_the_answer(server: Server) -> None:
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(ask, server, "slow")
        eventually(lambda: server.health()["waiting_clients"] >= 1)
        second = ask(server, "slow")
        assert (second.status, second.json()["error"]) == (429, "QUOTA_EXCEEDED")
        assert first.result().status == 200
    assert ask(server, "slow").status == 200
