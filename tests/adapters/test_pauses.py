"""How long the loop does one thing while everything else waits."""

import asyncio
import time

from penstock.adapters.observe.pauses import EVERY, SPAN, LoopPauses


def test_what_holds_up_the_loop_is_seen() -> None:
    async def hold_up() -> LoopPauses:
        pauses = LoopPauses()
        pauses.start(asyncio.get_running_loop())
        await asyncio.sleep(2 * EVERY)
        time.sleep(0.1)  # noqa: ASYNC251  what must not happen is what is to be seen
        await asyncio.sleep(2 * EVERY)
        pauses.stop()
        return pauses

    pauses = asyncio.run(hold_up())
    assert pauses.longest() >= 0.1 - EVERY - 0.002  # clocks are rounded
    assert sum(pauses.seconds.counts) >= 1


def test_the_longest_pause_is_remembered_for_a_minute_and_forgotten_after_two() -> None:
    now = 1000.0
    pauses = LoopPauses(lambda: now)
    pauses.note(0.3, now)
    pauses.note(0.2, now)
    assert pauses.longest() == 0.3
    now += SPAN - 1
    assert pauses.longest() == 0.3
    now += 1
    pauses.note(0.1, now)
    assert pauses.longest() == 0.3
    now += SPAN
    assert pauses.longest() == 0.1
    now += 2 * SPAN
    assert pauses.longest() == 0.0
    assert sum(pauses.seconds.counts) == 3
