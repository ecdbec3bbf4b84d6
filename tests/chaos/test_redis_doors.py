"""Who may ask, and how much, with two gateways over a Redis: keys, quotas and secrets."""

import asyncio
import json
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from canaries import MARK, PLACES, TELLTALE, Aviary, both_kinds, check_letters, release
from installation import Installation, Member, installation, patiently
from penstock.adapters.redis.link.connect import Store
from penstock.adapters.redis.records.api_keys import RedisKeys
from penstock.auth.keys import make_key
from redis_servers import Server, patient
from server import PENSTOCK, Answer, call
from wire import Address

LIMIT, IN_FLIGHT = 600, 40
EXACT = 0.05
CONFIG = f"""
[server]
log_level = "debug"
[retries]
attempts = 1
# What may come in is the question here, not how soon it is answered, on a slow machine too.
[timeouts]
queue = "60s"
processing = "60s"
request = "60s"
[tiers]
default = "paid"
[tiers.levels.paid]
rank = 0
[tiers.levels.minute]
rank = 1
requests_per_minute = {LIMIT}
[tiers.levels.narrow]
rank = 2
in_flight = {IN_FLIGHT}
"""


@dataclass(frozen=True)
class House:
    site: Installation
    folder: Path

    def key(self, tenant: str, tier: str) -> str:
        """One that both gateways know."""
        key, record = make_key(tenant, tier, time.time())

        async def add() -> None:
            store = Store(patient(self.site.redis.url))
            await store.open()
            try:
                await RedisKeys(store).add(record)
            finally:
                await store.close()

        asyncio.run(add())
        patiently(lambda: self.known(key))
        return key

    def known(self, key: str) -> bool:
        """Without asking for anything: a task that is not there is 404, and a stranger 401."""
        return {self.look(number, key) for number in (0, 1)} == {404}

    def refused(self, key: str) -> bool:
        return {self.look(number, key) for number in (0, 1)} == {401}

    def look(self, gateway: int, key: str) -> int:
        return call(
            self.site.gateways[gateway].url, "GET", "/v1/result/none", None, {"x-api-key": key}
        ).status

    def ask(self, gateway: int, key: str, text: str = "a", **headers: str) -> Answer:
        known = {"x-api-key": key, "content-type": "application/json", **headers}
        body = json.dumps({"input": text}).encode()
        return call(self.site.gateways[gateway].url, "POST", "/v1/inference", body, known, timeout=90.0)

    def keys(self, *words: str) -> str:
        command = [str(PENSTOCK), "keys", *words, "--redis", self.site.redis.url]
        return subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, check=True
        ).stdout.strip()

    @property
    def waiting(self) -> int:
        return sum(gateway.health()["waiting_clients"] for gateway in self.site.gateways)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("doors")
    (folder / "telltale.py").write_text(TELLTALE)
    with installation(
        folder, gateways=2, batchers=1, workers=1, max_batch=64, config=CONFIG + both_kinds(folder),
        target=f"{folder}/telltale.py:batchstring", worker_options=("--max-wait", "0ms"),
    ) as site:  # fmt: skip
        yield House(site, folder)


@pytest.fixture
def gate(house: House) -> Iterator[Path]:
    """Nobody is answered while it is there."""
    closed = house.folder / "gate"
    closed.touch()
    yield closed
    closed.unlink(missing_ok=True)


# ---- keys ------------------------------------------------------------------------------------------------


def test_a_key_is_good_at_every_gateway_once_it_is_made_and_at_none_once_it_is_revoked(house: House) -> None:
    key = house.keys("create", "--tenant", "acme", "--tier", "paid")
    patiently(lambda: house.known(key))
    house.keys("revoke", key.split("_")[1])
    patiently(lambda: house.refused(key))


def test_keys_are_honoured_while_redis_is_away_and_after_it_came_back_without_them(house: House) -> None:
    redis = house.site.redis
    assert isinstance(redis, Server)
    key, revoked = house.key("acme", "paid"), house.key("beta", "paid")
    house.keys("revoke", revoked.split("_")[1])
    patiently(lambda: house.refused(revoked))
    redis.kill()
    for number in (0, 1):
        assert house.ask(number, key).status == 503
        assert house.ask(number, revoked).status == 401
    redis.start()  # it kept nothing
    house.site.wait_until_known()
    patiently(lambda: {house.ask(number, key).status for number in (0, 1)} == {200})
    assert house.refused(revoked)


# ---- quotas ----------------------------------------------------------------------------------------------


@pytest.mark.timeout(600)
def test_a_tenant_that_asks_two_gateways_at_once_gets_its_minute_within_five_percent(
    house: House, chaos_long: bool
) -> None:
    key = house.key(f"minute-{time.time_ns()}", "minute")
    begun = time.monotonic()

    def spend(gateway: int) -> Counter[int]:
        """Until its minute is spent, and not just what this gateway may let in without asking."""
        said: Counter[int] = Counter()
        while True:
            answer = house.ask(gateway, key)
            if (
                answer.status == 503
            ):  # the machine stood still, and Redis was thought away: nothing was accepted
                time.sleep(0.1)
                continue
            said[answer.status] += 1
            check_quota(answer)
            spent = answer.status == 429 and int(answer.headers["retry-after"]) > 2
            if spent and (not chaos_long or time.monotonic() - begun > 175.0):
                return said
            if answer.status == 429:
                time.sleep(0.2 if chaos_long else 0.01)  # it comes back sooner than it was told

    with ThreadPoolExecutor(8) as pool:
        said = sum(pool.map(spend, [0, 1] * 4), Counter[int]())
    minutes = 1 + int((time.monotonic() - begun) / 60.0)
    assert set(said) == {200, 429}
    assert LIMIT * (1 - EXACT) <= said[200] <= LIMIT * minutes * (1 + EXACT)
    if chaos_long:
        assert said[200] >= LIMIT * minutes * (1 - EXACT)


def check_quota(answer: Answer) -> None:
    assert answer.headers["ratelimit-limit"] == str(LIMIT)
    assert 0 <= int(answer.headers["ratelimit-remaining"]) < LIMIT
    assert 0 <= int(answer.headers["ratelimit-reset"]) <= 61
    if answer.status == 429:
        assert answer.json()["error"] == "QUOTA_EXCEEDED"
        assert answer.headers["ratelimit-remaining"] == "0"
        assert 1 <= int(answer.headers["retry-after"]) <= 61


def test_no_more_are_in_flight_at_two_gateways_than_a_tenant_may_have(house: House, gate: Path) -> None:
    key = house.key("narrow", "narrow")
    asked = 2 * IN_FLIGHT
    with ThreadPoolExecutor(asked) as pool:
        answers = [pool.submit(house.ask, number % 2, key) for number in range(asked)]
        patiently(lambda: sum(answer.done() for answer in answers) + house.waiting == asked)
        refused = [answer.result() for answer in answers if answer.done()]
        gate.unlink()
        assert abs(asked - len(refused) - IN_FLIGHT) <= IN_FLIGHT * EXACT
        assert {answer.status for answer in refused} == {429}
        assert all(f"{IN_FLIGHT} requests in flight" in answer.json()["message"] for answer in refused)
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
        assert Counter(answer.result().status for answer in answers) == {
            200: asked - len(refused),
            429: len(refused),
        }


def test_tasks_are_in_flight_until_they_are_over(house: House, gate: Path) -> None:
    key = house.key("tasks", "narrow")
    made = [house.ask(number % 2, key, prefer="respond-async") for number in range(2 * IN_FLIGHT)]
    said = Counter(answer.status for answer in made)
    assert set(said) == {202, 429}, [gateway.health() for gateway in house.site.gateways]
    assert abs(said[202] - IN_FLIGHT) <= IN_FLIGHT * EXACT
    gate.unlink()
    patiently(lambda: all(house.ask(number, key, prefer="respond-async").status == 202 for number in (0, 1)))


# ---- secrets ---------------------------------------------------------------------------------------------


@pytest.mark.timeout(600)
def test_nothing_that_clients_send_is_logged_counted_or_told_to_others_by_any_process(
    house: House, chaos_long: bool, chaos_seed: int
) -> None:
    site, key = house.site, house.key("acme", "paid")
    aviary = Aviary(key, random.Random(chaos_seed))
    seen = release(
        aviary.one_of_each() + aviary.some(5_000 if chaos_long else 200), *map(address, site.gateways)
    )
    assert {200, 401, 404, 422, 502} <= set(seen)
    assert 500 not in seen
    for member in site.members:
        for text in (member.log(), *(member.admin(place).body.decode() for place in PLACES)):
            assert MARK not in text.lower(), member.name
            assert key.split("_")[2] not in text, member.name
    check_letters(site.gateways[0].admin("/internal/dlq?limit=1000"), key)


def address(gateway: Member) -> Address:
    parts = urlsplit(gateway.url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port
