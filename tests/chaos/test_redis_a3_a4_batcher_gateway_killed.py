"""Over Redis: kill -9 of one of two batchers, and of one of two gateways, with and without keys."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from balancer import drive_all
from history import asks, like, poisson
from installation import Installation, Member, installation
from scene import report

RATE = 60.0  # a second
PATIENCE = 20.0  # seconds that clients wait who ask again: the gateway they know is dead for a while
DELAY = 0.1  # seconds that a batch takes


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    long = bool(request.config.getoption("--chaos-long"))
    folder = tmp_path_factory.mktemp("batcher-gateway-killed")
    with installation(folder, workers=2, slots=2, max_batch=4, delay=DELAY, long=long) as found:
        yield found


class Killer:
    """Kills one of these, starts it anew, and waits until everyone is back at work before it kills again."""

    def __init__(self, site: Installation, those: list[Member], random: Random) -> None:
        self._site = site
        self._those = those
        self._random = random
        self.victims: set[str] = set()  # their URLs, if they had any

    async def kill_again_and_again(self, times: int, down: float) -> None:
        for _ in range(times):
            await asyncio.sleep(self._random.uniform(0.3, 0.8))
            victim = self._random.choice(self._those)
            self.victims.add(victim.url)
            await asyncio.to_thread(victim.kill)
            await asyncio.sleep(down)
            await asyncio.to_thread(victim.restart)
            await asyncio.to_thread(self._site.wait_until_known)


@pytest.mark.timeout(600)
def test_a_batcher_killed_hands_its_shards_to_the_other_and_no_answer_is_lost(
    site: Installation, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    random = Random(chaos_seed)
    kills, seconds = (10, 75.0) if chaos_long else (1, 4.0)
    schedule = asks(poisson(RATE, seconds, random), timeout=None, kind="a3")
    if chaos_long:
        asyncio.run(drive_all(site.gateways, like(schedule), chaos_seed))
        site.settle()
    killer = Killer(site, site.batchers, random)
    history = asyncio.run(
        drive_all(site.gateways, schedule, chaos_seed, lambda: killer.kill_again_and_again(kills, 3.0))
    )
    site.check(history)

    assert history.failures() == [], history.endings()
    if chaos_long:
        longest = max(map(history.seconds, history.records))
        gap = history.longest_gap()
        figure = f"{kills} kills, the longest wait {longest:.2f} s, the longest gap {gap:.2f} s"
        report(request, history.row("A3 over Redis", figure))
        assert longest <= 1.5 + DELAY
        assert gap <= 1.5


@pytest.mark.timeout(600)
def test_a_gateway_killed_breaks_only_its_own_connections(
    site: Installation, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    random = Random(chaos_seed)
    kills, seconds = (10, 40.0) if chaos_long else (1, 2.0)
    schedule = asks(poisson(RATE, seconds, random), timeout=None, kind="a4")
    killer = Killer(site, site.gateways, random)
    history = asyncio.run(
        drive_all(site.gateways, schedule, chaos_seed, lambda: killer.kill_again_and_again(kills, 0.2))
    )
    history.killed = killer.victims
    site.check(history)

    broken = [record for record in history.records if record.broken]
    others = [record for record in history.records if not record.broken and not record.unsent]
    assert history.failures(others) == [], history.endings()
    assert {record.url for record in broken} <= killer.victims
    if chaos_long:
        report(request, history.row("A4 over Redis", f"{kills} kills, {len(broken)} of its own broken"))


@pytest.mark.timeout(600)
def test_who_asks_again_with_its_key_after_a_gateway_was_killed_gets_the_answer_of_the_first_execution(
    site: Installation, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    random = Random(chaos_seed)
    kills, seconds = (10, 40.0) if chaos_long else (2, 4.0)
    schedule = asks(poisson(RATE, seconds, random), timeout=PATIENCE, kind="a4k")
    killer = Killer(site, site.gateways, random)
    site.set_delay(0.2)  # so that many are under way whenever one is killed
    history = asyncio.run(
        drive_all(
            site.gateways, schedule, chaos_seed, lambda: killer.kill_again_and_again(kills, 0.2),
            retry=True, keyed=True,
        )
    )  # fmt: skip
    site.set_delay(DELAY)
    history.killed = killer.victims
    site.check(history)

    assert history.unserved() == set(), history.endings()
    retried = {record.ask.input for record in history.records if record.broken}
    executions = Counter(text for each in site.journal.executions() for text in each.inputs)
    once = {text for text in retried if executions[text] == 1}
    assert retried
    assert len(once) >= 0.99 * len(retried), {text: executions[text] for text in retried - once}
    assert all(executions[ask.input] == 1 for ask in schedule if ask.input not in retried)
    if chaos_long:
        replayed = history.count(lambda record: record.replayed)
        told = f"{kills} kills, {len(retried)} retried, {len(once)} executed once, {replayed} answers given again"
        report(request, history.row("A4 over Redis, with Idempotency-Key", told))
