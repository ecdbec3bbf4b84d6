"""A worker is cut off from Redis in the middle of a batch, and comes back with its answers."""

import asyncio
import signal
from pathlib import Path
from random import Random

import pytest

from cut_line import cut_line
from history import asks, like, poisson
from installation import Member, installation, patiently, signal_all
from redis_faults import Fault, drive_during, one_after_another, wait_until_served
from redis_servers import Server
from scene import report

RATE, DELAY, BATCH = 40.0, 0.1, 8
TAKEN_OVER = 3.0
ANSWERED = 0.2  # seconds in which what was on the way when the line was mended is done


@pytest.mark.timeout(300)
def test_a_worker_that_is_cut_off_is_replaced_and_its_late_answers_reach_nobody(
    tmp_path: Path, chaos_long: bool, chaos_seed: int, request: pytest.FixtureRequest
) -> None:
    spans = (10.0, 30.0) if chaos_long else (3.5,)
    after, afterwards = (4.0, 6.0) if chaos_long else (0.7, 2.5)
    random = Random(chaos_seed)
    schedule = asks(poisson(RATE, sum(spans) + len(spans) * after + afterwards, random), timeout=None)
    with installation(
        tmp_path, gateways=1, batchers=2, workers=1, slots=1, max_batch=BATCH, delay=DELAY, long=chaos_long
    ) as site:
        assert isinstance(site.redis, Server)
        with cut_line(site.redis.port) as line:
            remote = site.add_like(site.workers[0], 1, line.url)
            slots = remote.children()
            if chaos_long:
                asyncio.run(drive_during(site, like(schedule), chaos_seed, one_after_another([])))
                site.settle()

            held: set[str] = set()  # what it had in hand when it was cut off

            def by_others() -> set[str]:
                return {
                    text
                    for each in site.journal.executions()
                    if each.pid not in slots
                    for text in each.inputs
                }

            def cut_at_work() -> None:
                patiently(cut_if_at_work)

            def cut_if_at_work() -> bool:
                """It stands still meanwhile, or else its batch might be over before the line is cut."""
                signal_all(slots, signal.SIGSTOP)
                try:
                    for each in site.journal.executions():
                        if each.pid in slots and each.ended is None:
                            line.cut()
                            held.update(each.inputs)
                            return True
                    return False
                finally:
                    signal_all(slots, signal.SIGCONT)

            def mend_when_replaced() -> None:
                patiently(lambda: held <= by_others())
                line.mend()

            def given_something() -> bool:
                """One that came back late may have missed the rest of the load."""
                wait_until_served(site)
                mended = faults[-1].ended + ANSWERED
                return any(each.pid in slots and each.begun > mended for each in site.journal.executions())

            faults = [Fault(cut_at_work, mend_when_replaced, after, span) for span in spans]
            history = asyncio.run(drive_during(site, schedule, chaos_seed, one_after_another(faults)))
            site.check(history)
            site.wait_until_known()
            _check_that_it_is_of_use(remote)
            patiently(given_something)
            executions = site.journal.executions()

    by_it = {text for execution in executions if execution.pid in slots for text in execution.inputs}
    twice = {text for each in executions if each.pid not in slots for text in each.inputs if text in by_it}
    assert twice, "nothing was in the hand of the one cut off"
    assert history.failures() == [], history.endings()
    if chaos_long:
        longest = max(history.seconds(record) for record in history.records)
        figure = f"{len(twice)} done again by others, longest wait {longest:.2f} s"
        report(request, history.row("B5 worker cut off for 10 and 30 s", figure))
        assert longest <= TAKEN_OVER


def _check_that_it_is_of_use(worker: Member) -> None:
    patiently(worker.ready)
    assert worker.alive
    assert "Traceback" not in worker.log(), worker.log()
