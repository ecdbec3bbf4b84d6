"""Over Redis: kill -9 of one worker process in the middle of a batch, and of all at once."""

import asyncio
import signal
import time
from collections.abc import Iterator
from random import Random

import pytest

from balancer import drive_all
from history import GRACE, Ask, Record, asks, like, percentile, poisson
from installation import Installation, Member, installation, patiently, signal_all
from scene import report

BATCH, SLOTS, DELAY = 16, 1, 0.1
FEW, MANY = 4, 8  # workers in the short form and in the long one
RATE = 60.0  # a second, so that the one who is left of four while three are started anew can do it
OUTLIVES, GIVES_UP = (
    30.0,
    1.0,
)  # seconds that clients wait where all workers are dead for longer than the default


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    long = bool(request.config.getoption("--chaos-long"))
    folder = tmp_path_factory.mktemp("workers-killed")
    workers = MANY if long else FEW
    with installation(folder, workers=workers, slots=SLOTS, max_batch=BATCH, delay=DELAY, long=long) as found:
        yield found


ATTEMPTS = 100  # to find workers of which one is at work


class Killer:
    """Kills workers at work and starts them anew, and notes which inputs they had."""

    def __init__(self, site: Installation, random: Random) -> None:
        self._site = site
        self._random = random
        self.broken: set[str] = set()

    async def kill_again_and_again(self, times: int, at_once: int, apart: float) -> None:
        for _ in range(times):
            await asyncio.sleep(apart)
            await asyncio.to_thread(self._kill, at_once)

    def _kill(self, at_once: int) -> None:
        """Their slots stand still from the look until their death, or else their batches might be over by then."""
        for _ in range(ATTEMPTS):
            victims = self._random.sample(self._site.workers, at_once)
            slots = {slot for worker in victims for slot in worker.children()}
            signal_all(slots, signal.SIGSTOP)
            executions = self._site.journal.executions()
            in_hand = [each.inputs for each in executions if each.pid in slots and each.ended is None]
            if in_hand:
                for worker in victims:
                    worker.kill()  # and its slots die with it
                self.broken.update(*in_hand)
                for worker in victims:
                    worker.restart()
                return
            signal_all(slots, signal.SIGCONT)


def _came_too_many(record: Record, killer: Killer) -> bool:
    """Whether a request was refused at the door, and so was on no worker."""
    return record.code == "SERVICE_OVERLOADED" and record.ask.input not in killer.broken


@pytest.mark.timeout(600)
@pytest.mark.parametrize("at_once", [1, 3])
def test_worker_processes_killed_in_the_middle_of_a_batch_cost_no_answer(
    site: Installation, at_once: int, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    """At the defaults: no client says how long it waits, and the server gives it 4 s."""
    random = Random(chaos_seed)
    kills, apart = (20 if at_once == 1 else 5, 2.0) if chaos_long else (1, 0.7)
    seconds = kills * (apart + 1.0) + 1.0
    schedule = asks(poisson(RATE, seconds, random), timeout=None, kind=f"a1-{at_once}")
    if chaos_long:
        asyncio.run(drive_all(site.gateways, like(schedule), chaos_seed))
        site.settle()
    killer = Killer(site, random)
    history = asyncio.run(
        drive_all(
            site.gateways, schedule, chaos_seed, lambda: killer.kill_again_and_again(kills, at_once, apart)
        )
    )
    site.check(history)

    assert killer.broken, "nobody was killed at work"
    failures = history.failures()
    if not chaos_long:  # a quarter of the workers is left: on a busy machine some who come then are refused
        failures = [record for record in failures if not _came_too_many(record, killer)]
    assert failures == [], history.endings()
    if chaos_long:
        waits = [history.seconds(record) for record in history.records if record.ask.input in killer.broken]
        p99 = percentile(waits, 0.99)
        report(
            request,
            history.row(
                f"A1 over Redis, {at_once} at once", f"{len(waits)} in killed batches, their p99 {p99:.2f} s"
            ),
        )
        assert p99 <= 1.5 + DELAY


@pytest.mark.timeout(300)
def test_the_place_in_the_line_of_a_worker_that_died_unseen_is_a_trap_for_nobody(
    site: Installation, chaos_seed: int
) -> None:
    """The batchers that would have noticed die with it: their successors have never heard of it."""
    site.wait_until_quiet()
    worker = site.workers[0]
    for member in (worker, *site.batchers):
        member.kill()
    rows = site.gateways[0].admin
    patiently(
        lambda: {"offline"}.issuperset(
            row["status"] for row in rows("/internal/workers").json() if row["pid"] == worker.pid
        )
    )
    for batcher in site.batchers:
        batcher.restart()
    site.wait_until_known()
    schedule = asks([0.1 * number for number in range(10)], timeout=None, kind="trap")
    history = asyncio.run(drive_all(site.gateways, schedule, chaos_seed))
    worker.restart()
    site.check(history)
    assert history.failures() == [], history.endings()


class Absence:
    """All workers dead for a while."""

    def __init__(self, site: Installation, after: float, seconds: float) -> None:
        self._site = site
        self._after = after
        self._seconds = seconds
        self.back = 0.0  # when the first of them was of use again

    async def happen(self) -> None:
        await asyncio.sleep(self._after)
        await asyncio.gather(*(asyncio.to_thread(worker.kill) for worker in self._site.workers))
        await asyncio.sleep(self._seconds)
        await asyncio.gather(*(asyncio.to_thread(self._restart, worker) for worker in self._site.workers))

    def _restart(self, worker: Member) -> None:
        worker.restart()
        self.back = min(self.back or time.monotonic(), time.monotonic())


@pytest.mark.timeout(600)
def test_with_all_workers_dead_nothing_is_executed_after_its_deadline_and_what_can_wait_is_served(
    site: Installation, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    random = Random(chaos_seed)
    after, dead = (5.0, 10.0) if chaos_long else (0.5, 3.0)
    dues = poisson(RATE, after + dead + (10.0 if chaos_long else 1.0), random)
    schedule = [
        Ask(due, f"a2:{number}", GIVES_UP if random.random() < 0.5 else OUTLIVES)
        for number, due in enumerate(dues)
    ]
    absence = Absence(site, after, dead)
    history = asyncio.run(drive_all(site.gateways, schedule, chaos_seed, absence.happen))
    site.check(history)

    begun = site.journal.first_begun()
    slack = GRACE if chaos_long else 1.0

    def late(record: Record) -> float:
        """Seconds after its deadline; what came to be sent in time may be begun after a stall."""
        began = begun.get(record.ask.input, 0.0)
        return began - record.sent - record.ask.timeout - history.stalled(record.sent, began)

    too_late = [record for record in history.records if late(record) > slack]
    assert too_late == []
    # 502: the client gave it so little time that none was left when its worker was known to be dead.
    assert {record.status for record in history.records} <= {200, 502, 503, 504}, history.endings()
    patient = [record for record in history.records if record.ask.timeout == OUTLIVES and not record.refused]
    assert history.failures(patient) == [], history.endings()
    assert any(record.status == 504 for record in history.records), history.endings()
    if chaos_long:
        waited = [record.done for record in patient if record.sent < absence.back]
        drained = max(waited) - absence.back
        report(request, history.row("A2 over Redis", f"drained {drained:.1f} s after; {history.endings()}"))
        assert drained <= 20.0
