"""Loops that end are started again, by themselves and as the parts of a larger one."""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest

from penstock.loops import MOST, SPAN, Loops, for_ever, kept_thread
from penstock.testing import run_virtual


def failing(
    times: float, error: BaseException | None = None
) -> tuple[list[float], Callable[[], Coroutine[Any, Any, None]]]:
    """A loop that fails so often and then goes on, and when it was started."""
    starts: list[float] = []

    async def loop() -> None:
        starts.append(asyncio.get_running_loop().time())
        if len(starts) <= times:
            if error is not None:
                raise error
            return
        await for_ever()

    return starts, loop


def loops_here() -> Loops:
    return Loops(asyncio.get_running_loop().time)


@pytest.mark.parametrize("error", [ValueError("x"), asyncio.CancelledError(), None])
def test_a_loop_that_ends_is_started_again_and_the_log_says_why(
    error: BaseException | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> None:
        loops, (starts, loop) = loops_here(), failing(1, error)
        loops.keep("the loop", loop)
        await asyncio.sleep(1.0)
        assert len(starts) == 2
        assert not loops.dead()
        assert loops.restarts == {"the loop": 1}
        await loops.close()

    with caplog.at_level(logging.ERROR, "penstock.loops"):
        run_virtual(body())
    [said] = caplog.records
    assert said.getMessage() == "the loop has ended and is started again"


def test_it_waits_longer_each_time_and_is_dead_only_while_it_fails_again_and_again() -> None:
    async def body() -> None:
        loops, (starts, loop) = loops_here(), failing(MOST + 2, ValueError("x"))
        loops.keep("the loop", loop)
        await asyncio.sleep(SPAN / 2)
        assert "ValueError: x" in loops.dead()[0]
        pauses = [after - before for before, after in pairwise(starts)]
        assert pauses == sorted(pauses)
        await asyncio.sleep(SPAN)
        assert not loops.dead()
        await loops.close()

    run_virtual(body())


def test_a_part_that_fails_costs_its_siblings_nothing_until_it_is_given_up_on() -> None:
    async def body() -> None:
        loops = loops_here()
        failed, part = failing(MOST + 1, ValueError("x"))
        well, sibling = failing(0)

        async def whole() -> None:
            async with Loops(asyncio.get_running_loop().time) as parts:
                parts.keep("a part", part)
                parts.keep("its sibling", sibling)

        loops.keep("the whole", whole)
        await asyncio.sleep(1.0)
        assert len(failed) > 2
        assert len(well) == 1
        assert not loops.dead()
        await asyncio.sleep(SPAN / 2)
        assert "the whole: a part: ValueError: x" in loops.dead()[0]
        assert len(well) == 2  # the whole was begun anew
        assert loops.restarts["the whole: a part"] >= MOST
        await asyncio.sleep(SPAN)
        assert not loops.dead()
        await loops.close()

    run_virtual(body())


def test_an_errand_that_fails_is_heard_of_and_done_with(caplog: pytest.LogCaptureFixture) -> None:
    async def errand() -> None:
        raise ValueError("x")

    async def body() -> None:
        loops = loops_here()
        loops.send("an errand", errand())
        await asyncio.sleep(0.0)
        await asyncio.sleep(0.0)
        assert not loops.errands
        assert not loops.dead()

    with caplog.at_level(logging.ERROR, "penstock.loops"):
        run_virtual(body())
    assert [record.getMessage() for record in caplog.records] == ["an errand failed"]


def test_a_thread_begins_again_until_its_work_is_done() -> None:
    done = threading.Event()
    tries: list[int] = []

    def work() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("x")
        done.set()

    thread = kept_thread("the thread", work)
    thread.start()
    assert done.wait(60)
    thread.join(60)
    assert len(tries) == 2
