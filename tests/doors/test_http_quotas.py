"""Over HTTP: a tenant is kept to its own quota, told how it stands, and nobody else notices."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from server import PATIENT, Answer, Server, eventually, held, running

LIMIT = 5
CONFIG = f"""{PATIENT}
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
target = "sim:20ms"
max_batch = 64
[models.held]
target = "HELD"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(config=CONFIG.replace("HELD", held(tmp_path_factory.mktemp("held")))) as server:
        yield server


def ask(server: Server, client: str | None, model: str = "sim", **headers: str) -> Answer:
    body = {"input": "a", "model": model, **({} if client is None else {"client_id": client})}
    return server.post("/v1/inference", body, headers)


def test_over_its_quota_a_tenant_gets_429_with_a_time_to_come_back_and_others_are_served(
    server: Server,
) -> None:
    answers = [ask(server, "beta") for _ in range(2)]
    with ThreadPoolExecutor(LIMIT) as pool:
        answers += pool.map(lambda _: ask(server, "beta"), range(LIMIT - 2))
    assert [answer.status for answer in answers] == [200] * LIMIT
    assert {answer.headers["ratelimit-limit"] for answer in answers} == {str(LIMIT)}
    left = [int(answer.headers["ratelimit-remaining"]) for answer in answers]
    assert left[:2] == [LIMIT - 1, LIMIT - 2]
    assert min(left) == 0  # as of the answer: those asked at once may all hear it
    assert max(left[2:]) <= LIMIT - 3
    over = ask(server, "beta")
    assert (over.status, over.json()["error"]) == (429, "QUOTA_EXCEEDED")
    assert str(LIMIT) in over.json()["message"]
    assert 1 <= int(over.headers["retry-after"]) <= 61  # a minute, and the half second that it is counted in
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
        first = pool.submit(ask, server, "slow", "held")
        eventually(lambda: server.health()["waiting_clients"] >= 1)
        second = ask(server, "slow")
        assert (second.status, second.json()["error"]) == (429, "QUOTA_EXCEEDED")
        server.open()
        assert first.result().status == 200
    assert ask(server, "slow").status == 200
