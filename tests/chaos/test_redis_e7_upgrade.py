"""Over Redis: every process replaced in turn by one of another release, which nobody notices."""

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from balancer import Balancer, balancing
from functions import answer_to
from history import History, Record, asks, poisson
from installation import Installation, Member, installation
from open_loop import drive
from redis_heard import Silences, listening_to_redis
from redis_servers import Server
from releases import Release, release_before, this_release
from scene import report
from server import call

RATE = 50.0  # requests a second
SLICE = 2.0  # seconds of load at a time, again and again until the successor is known to everyone
BATCH = 0.02  # seconds that a batch takes
TASK_EVERY = 0.25  # seconds
# Load balancers look less often than every gateway ends. All other settings are the defaults.
CONFIG = "[server]\ndrain_grace = '4s'\n"
DONE_WITHIN = 30.0  # seconds until a task is over


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return release_before(tmp_path_factory.mktemp("before"))


class Tasks:
    """Asynchronous requests to whichever gateway is ready; each is read at all of them when the rest is over."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._sent: list[str] = []
        self.refused: list[str] = []

    async def send(self, where: Balancer, enough: asyncio.Event) -> None:
        while not enough.is_set():
            task_id = f"{self._kind}-{len(self._sent)}"
            self._sent.append(task_id)
            status = await asyncio.to_thread(self._send, where(), task_id)
            if status != 202:
                self.refused.append(f"{task_id}: {status}")
            await asyncio.sleep(TASK_EVERY)

    def _send(self, url: str | None, task_id: str) -> int:
        if url is None:
            return 0
        headers = {"content-type": "application/json", "prefer": "respond-async", "x-request-id": task_id}
        return call(url, "POST", "/v1/inference", json.dumps({"input": task_id}).encode(), headers).status

    def wrong(self, gateways: Sequence[Member]) -> list[str]:
        """What gateways say of tasks, where it is not that they succeeded with the right output."""
        found = []
        for gateway in gateways:
            for task_id in self._sent:
                said = self._ended(gateway, task_id)
                if (said.get("status"), said.get("output")) != ("SUCCESS", answer_to(task_id)):
                    found.append(f"{task_id} at {gateway.name}: {said}")
        return found

    def _ended(self, gateway: Member, task_id: str) -> dict[str, object]:
        until = time.monotonic() + DONE_WITHIN
        while True:
            said: dict[str, object] = call(gateway.url, "GET", f"/v1/result/{task_id}").json()
            if said.get("status") not in ("PENDING", "PROCESSING") or time.monotonic() > until:
                return said
            time.sleep(0.05)


class Change:
    """One process after the other becomes one of another release; the next only when everyone knows it."""

    def __init__(self, site: Installation, to: Release, kind: str, seed: int, *, keyed: bool) -> None:
        self._site = site
        self._to = to
        self._kind = kind
        self._seed = seed
        self._random = Random(seed)
        self._keyed = keyed
        self.histories: list[History] = []
        self.tasks = Tasks(kind)
        self.exits: list[tuple[str, int]] = []  # who, and its code
        self._old_drains: list[tuple[float, float]] = []  # when batchers of the release before were stopped
        self._silences = Silences()

    async def make(self, those: Sequence[Member]) -> None:
        """Under load from the first to the last, and a little longer."""
        enough = asyncio.Event()
        assert isinstance(self._site.redis, Server)
        async with (
            listening_to_redis(self._site.redis.port) as self._silences,
            balancing(self._site.gateways) as balancer,
            asyncio.TaskGroup() as group,
        ):
            group.create_task(self._ask(balancer, enough))
            group.create_task(self.tasks.send(balancer, enough))
            try:
                await asyncio.to_thread(self._replace, those)
            finally:
                enough.set()

    async def _ask(self, where: Balancer, enough: asyncio.Event) -> None:
        last = False
        while not last:
            last = enough.is_set()
            kind = f"{self._kind}-{len(self.histories)}"
            schedule = asks(poisson(RATE, SLICE, self._random), timeout=None, kind=kind)
            self.histories.append(await drive(where, schedule, self._seed, keyed=self._keyed))

    def _replace(self, those: Sequence[Member]) -> None:
        for member in those:
            told = time.monotonic()
            self.exits.append((member.name, member.stop()))
            if member.role == "batcher" and self._to.name == "this":
                self._old_drains.append((told, time.monotonic()))
            member.environment = self._to.environment(member.environment)
            member.restart()
            self._site.wait_until_known()

    def check(self) -> None:
        self._site.check(*self.histories)
        failures = [each for history in self.histories for each in history.failures()]
        failures = [each for each in failures if not self._excused(each)]
        assert failures == [], f"seed {self._seed}: {[history.endings() for history in self.histories]}"
        assert self.tasks.refused == []
        assert self.tasks.wrong(self._site.gateways) == []
        assert {code for _, code in self.exits} == {0}, self.exits

    def _excused(self, record: Record) -> bool:
        """Refused because Redis was away, and it was; or by a batcher of the release before, which refuses what it
        is just reading when it is stopped with a full batch waiting (docs/production.md, Upgrading)."""
        return self._silences.excuse(record) or (
            record.code == "SERVICE_OVERLOADED"
            and any(told < record.done and record.sent < ended for told, ended in self._old_drains)
        )

    def figures(self) -> str:
        records = [record for history in self.histories for record in history.records]
        return (
            f"{len(self.exits)} replaced | sent {len(records)} | ok {sum(record.ok for record in records)}"
            f" | excused {sum(self._excused(record) for record in records if not record.ok)}"
            f" | lost {sum(len(history.lost(self._site.grace)) for history in self.histories)}"
            f" | duplicated {sum(history.unasked for history in self.histories)}"
            f" | wrong {sum(len(history.wrong()) for history in self.histories)}"
        )


@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", ["before", "this"])
def test_an_upgrade_and_a_rollback_of_every_role_are_not_noticed(
    first: str,
    before: Release,
    tmp_path: Path,
    chaos_long: bool,
    chaos_seed: int,
    request: pytest.FixtureRequest,
) -> None:
    if not chaos_long and first != "before":
        pytest.skip("the short form is an upgrade, and the long one a rollback too")
    order = [before, this_release()] if first == "before" else [this_release(), before]
    with installation(
        tmp_path, workers=2, slots=1, max_batch=4, delay=BATCH, config=CONFIG, long=chaos_long,
        environment=order[0].environment({}),
    ) as site:  # fmt: skip
        for number, members in enumerate(_turns(site, Random(chaos_seed), long=chaos_long)):
            to, kind = order[1 - number % 2], f"e7-{number}"
            change = Change(site, to, kind, chaos_seed + number, keyed=number % 2 == 1)
            asyncio.run(change.make(members))
            change.check()
            if chaos_long:
                report(request, f"E7 over Redis | to {to.name} | seed {chaos_seed} | {change.figures()}")


def _turns(site: Installation, random: Random, *, long: bool) -> Iterator[list[Member]]:
    """Which are replaced in which order. In the long form every one of them there and back, and in another order
    each time."""
    if not long:
        yield random.sample([site.gateways[0], site.batchers[0], site.workers[0]], 3)
        return
    for _ in range(2):
        yield random.sample(site.members, len(site.members))
