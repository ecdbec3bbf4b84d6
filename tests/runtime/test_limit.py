"""A time limit that is set again and again."""

import asyncio

import pytest

from penstock.runtime.limit import Limit
from penstock.testing import run_virtual


def now() -> float:
    return asyncio.get_running_loop().time()


def test_each_wait_has_its_own_full_time_and_only_what_takes_longer_is_cut() -> None:
    async def body() -> None:
        limit, began = Limit(1.0), now()
        for _ in range(7):  # the timer of the first rings during a later one
            with limit:
                await asyncio.sleep(0.4)
        assert now() == pytest.approx(began + 7 * 0.4)
        with pytest.raises(TimeoutError), limit:
            await asyncio.sleep(5.0)
        assert now() == pytest.approx(began + 7 * 0.4 + 1.0)
        with limit:  # it is good for the next
            await asyncio.sleep(0.9)
        limit.close()

    run_virtual(body())


def test_a_timer_that_rings_while_nobody_waits_does_nothing() -> None:
    async def body() -> None:
        limit = Limit(1.0)
        with limit:
            await asyncio.sleep(0.1)
        await asyncio.sleep(3.0)
        began = now()
        with pytest.raises(TimeoutError), limit:
            await asyncio.sleep(5.0)
        assert now() == pytest.approx(began + 1.0)

    run_virtual(body())


def test_a_wait_that_others_end_is_not_taken_for_one_that_ran_out() -> None:
    async def wait(limit: Limit) -> None:
        with limit:
            await asyncio.sleep(5.0)

    async def body() -> None:
        for cancelled_after in (0.5, 1.0):  # before it runs out, and in the very moment
            task = asyncio.create_task(wait(Limit(1.0)))
            await asyncio.sleep(cancelled_after)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run_virtual(body())


async def fail_instead() -> None:
    try:
        await asyncio.sleep(5.0)
    except asyncio.CancelledError:
        raise ValueError("instead") from None


def test_an_error_of_the_work_itself_stays_what_it_is() -> None:
    async def body() -> None:
        limit = Limit(1.0)
        with pytest.raises(ZeroDivisionError), limit:
            raise ZeroDivisionError
        with pytest.raises(ValueError, match="instead"), limit:
            await fail_instead()
        await asyncio.sleep(0)  # the task is not left to be cancelled
        limit.close()

    run_virtual(body())


def test_one_that_is_closed_rings_no_more() -> None:
    async def body() -> None:
        limit = Limit(1.0)
        with limit:
            limit.close()
            await asyncio.sleep(5.0)

    run_virtual(body())
