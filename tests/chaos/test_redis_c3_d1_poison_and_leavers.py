"""Over Redis: one input that kills every batch it is in; half of the clients leave."""

import asyncio
import time
from collections.abc import Iterator
from math import ceil, log2
from random import Random

import pytest

from balancer import drive_all
from history import Ask, asks, like, poisson
from installation import Installation, installation, patiently
from scene import report
from server import call

BATCH, WORKERS, SLOTS, DELAY, ATTEMPTS = 8, 2, 2, 0.1, 3
PATIENCE = 40.0  # crashed slots are started anew, and on a slow machine that takes a while
RATE = 80.0
CONFIG = f"[retries]\nattempts = {ATTEMPTS}\n"
DEPARTURE = 1.0  # seconds after the start
SLOW = 0.3  # seconds of a batch, so that a queue grows
NOTICED = 1.0  # seconds in which a departure must be seen


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    long = bool(request.config.getoption("--chaos-long"))
    folder = tmp_path_factory.mktemp("poison-and-leavers")
    with installation(
        folder, workers=WORKERS, slots=SLOTS, max_batch=BATCH, delay=DELAY, config=CONFIG, long=long
    ) as found:
        yield found


@pytest.mark.timeout(400)
def test_one_input_that_kills_its_batch_is_dead_lettered_once_and_the_innocent_are_all_served(
    site: Installation, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    random = Random(chaos_seed)
    seconds, poisons = (30.0, 6) if chaos_long else (2.5, 1)
    schedule = asks(poisson(RATE, seconds, random), timeout=PATIENCE, kind="c3")
    schedule += [
        Ask(random.uniform(0.2, 0.8) * seconds, f"die:{number}", PATIENCE) for number in range(poisons)
    ]
    if chaos_long:
        asyncio.run(drive_all(site.gateways, like(schedule), chaos_seed))
        site.settle()
    history = asyncio.run(drive_all(site.gateways, schedule, chaos_seed))
    site.check(history)

    innocent, guilty = history.of_kind("c3"), history.of_kind("die")
    assert history.failures(innocent) == [], history.endings()
    assert {record.status for record in guilty} == {502}, history.endings()
    crashes = []
    executions = site.journal.executions()
    for record in guilty:
        sizes = [len(execution.inputs) for execution in executions if record.ask.input in execution.inputs]
        assert sizes.index(1) <= ceil(log2(sizes[0])), sizes
        assert len(sizes) <= max(ATTEMPTS, ceil(log2(sizes[0])) + 1), sizes
        crashes.append(sizes)
    patiently(lambda: len(site.dead_letters()) >= poisons)
    letters = site.dead_letters()
    assert sorted(letter["request_id"] for letter in letters) == sorted(record.id for record in guilty)
    retried_as_a_task(site, letters[0])
    if chaos_long:
        report(request, history.row("C3 over Redis", f"innocent 100 %, batches of the guilty {crashes}"))


def retried_as_a_task(site: Installation, letter: dict[str, str]) -> None:
    """By its id, at any gateway; and it fails again, into one new letter."""
    said = site.gateways[0].admin(f"/internal/dlq/{letter['id']}/retry", "POST")
    assert (said.status, said.json()) == (202, {"task_id": letter["request_id"]})
    path = f"/v1/result/{letter['request_id']}?wait_ms=30000"
    ended = call(site.gateways[1].url, "GET", path, timeout=60.0)
    assert ended.json()["status"] == "FAILED", ended.body

    def one_new_letter() -> bool:
        again = [each["id"] for each in site.dead_letters() if each["request_id"] == letter["request_id"]]
        return len(again) == 1 and again != [letter["id"]]

    patiently(one_new_letter)


def crowd(clients: int, seed: int) -> list[Ask]:
    """Everyone asks at once, the queue grows long, and a second later half of them hang up together."""
    random = Random(seed)
    leaving = set(random.sample(range(clients), clients // 2))
    dues = [random.uniform(0.0, 0.5) for _ in range(clients)]
    return [
        Ask(due, f"d1:{number}", PATIENCE, leaves_after=DEPARTURE - due if number in leaving else None)
        for number, due in enumerate(dues)
    ]


class Watch:
    """From their departure until no gateway or batcher counts more of them than can still be there."""

    def __init__(self, site: Installation, remaining: int) -> None:
        self._site = site
        self._remaining = remaining
        self.noticed_after = 0.0

    async def happen(self) -> None:
        await asyncio.sleep(DEPARTURE)
        left = time.monotonic()
        await asyncio.to_thread(patiently, self._noticed)
        self.noticed_after = time.monotonic() - left

    def _noticed(self) -> bool:
        waiting = sum(gateway.health()["waiting_clients"] for gateway in self._site.gateways)
        in_hand = sum(batcher.health()["in_hand"] for batcher in self._site.batchers)
        return bool(waiting <= self._remaining and in_hand <= self._remaining)


@pytest.mark.timeout(300)
def test_requests_whose_clients_left_the_gateways_cost_no_gpu_time_and_the_others_are_served(
    site: Installation, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    clients = 2000 if chaos_long else 400
    schedule = crowd(clients, chaos_seed)
    site.set_delay(SLOW)
    watch = Watch(site, sum(ask.leaves_after is None for ask in schedule))
    history = asyncio.run(drive_all(site.gateways, schedule, chaos_seed, watch.happen))
    site.check(history)

    begun = site.journal.first_begun()
    stayed = [record for record in history.records if record.ask.leaves_after is None]
    assert history.failures(stayed) == [], history.endings()
    left = [record for record in history.records if record.left]
    undispatched = [record for record in left if begun.get(record.ask.input, record.done + 1) > record.done]
    wasted = [record for record in undispatched if record.ask.input in begun]
    assert len(undispatched) > clients // 5
    assert len(wasted) < len(undispatched) / 2
    if chaos_long:
        spared = 1.0 - len(wasted) / len(undispatched)
        figure = f"noticed after {watch.noticed_after:.2f} s, {spared:.1%} of the undispatched cost no GPU"
        report(request, history.row("D1 over Redis", figure))
        assert watch.noticed_after <= NOTICED
        assert spared >= 0.99
