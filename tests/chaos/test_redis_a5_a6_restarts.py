"""Over Redis: a quarter of all processes killed, again and again; every role restarted in turn."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from random import Random

import pytest

from balancer import drive_all
from history import asks, poisson
from installation import Installation, Member, installation
from scene import report

RATE = 50.0  # a second
PATIENCE = 30.0  # seconds that clients wait who try another gateway: of two, both may be dead for a while
GRACE = 4.0  # seconds from "not ready" to the end of a gateway: load balancers look more often than that
CONFIG = f"[server]\ndrain_grace = '{GRACE}s'\n"
EXIT = 30.0  # seconds


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    long = bool(request.config.getoption("--chaos-long"))
    folder = tmp_path_factory.mktemp("restarts")
    with installation(folder, workers=3, slots=1, max_batch=4, delay=0.1, config=CONFIG, long=long) as found:
        yield found


class Rolling:
    """SIGTERM to one after the other; the next only when its successor is known to everyone."""

    def __init__(self, site: Installation) -> None:
        self._site = site
        self.exits: list[tuple[str, int, float]] = []  # who, its code, seconds it took

    async def restart(self, those: Sequence[Member]) -> None:
        for member in those:
            await asyncio.to_thread(self._restart, member)

    def _restart(self, member: Member) -> None:
        told = time.monotonic()
        code = member.stop()
        self.exits.append((member.name, code, time.monotonic() - told))
        member.restart()
        self._site.wait_until_known()


@pytest.mark.timeout(600)
def test_a_rolling_restart_of_every_role_is_not_noticed_by_clients_that_never_retry(
    site: Installation, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    random = Random(chaos_seed)
    some = [site.gateways[0], site.batchers[0], site.workers[0]]
    those, seconds = (site.members * 3, 95.0) if chaos_long else (some, 12.0)
    schedule = asks(poisson(RATE, seconds, random), timeout=None, kind="a6")
    rolling = Rolling(site)
    history = asyncio.run(drive_all(site.gateways, schedule, chaos_seed, lambda: rolling.restart(those)))
    site.check(history)

    assert history.failures() == [], history.endings()
    assert {code for _, code, _ in rolling.exits} == {0}, rolling.exits
    longest = max(seconds for _, _, seconds in rolling.exits)
    assert longest <= EXIT, rolling.exits
    if chaos_long:
        report(
            request, history.row("A6 over Redis", f"{len(rolling.exits)} restarts, each ≤ {longest:.1f} s")
        )


class Lightning:
    """A quarter of all processes, whichever, killed and started anew."""

    def __init__(self, site: Installation, random: Random) -> None:
        self._site = site
        self._random = random
        self.killed: set[str] = set()  # URLs of gateways
        self.strikes = 0

    async def strike_again_and_again(self, times: int, apart: float) -> None:
        for _ in range(times):
            await asyncio.sleep(apart)
            members = self._site.members
            victims = self._random.sample(members, round(len(members) / 4))
            self.killed |= {victim.url for victim in victims}
            self.strikes += len(victims)
            await asyncio.gather(*(asyncio.to_thread(self._strike, victim) for victim in victims))

    def _strike(self, victim: Member) -> None:
        victim.kill()
        victim.restart()


@pytest.mark.timeout(900)
def test_clients_that_try_another_gateway_are_served_though_a_quarter_of_the_processes_is_killed(
    site: Installation, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    random = Random(chaos_seed)
    times, apart = (8, 15.0) if chaos_long else (2, 2.0)
    schedule = asks(poisson(RATE, times * apart + 4.0, random), timeout=PATIENCE, kind="a5")
    lightning = Lightning(site, random)
    history = asyncio.run(
        drive_all(
            site.gateways, schedule, chaos_seed,
            lambda: lightning.strike_again_and_again(times, apart), retry=True,
        )
    )  # fmt: skip
    history.killed = lightning.killed
    site.check(history)

    unserved = history.unserved()
    assert len(unserved) <= len(schedule) / 1000, f"{history.endings()}: {sorted(unserved)[:10]}"
    if chaos_long:
        success = 1.0 - len(unserved) / len(schedule)
        longest = max(history.seconds(record) for record in history.records if record.ok)
        figure = f"{lightning.strikes} killed, success {success:.3%}, the longest wait {longest:.2f} s"
        report(request, history.row("A5 over Redis", figure))
