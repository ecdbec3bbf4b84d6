"""Many deadlines, one timer."""

import asyncio
import logging

import pytest

from penstock.runtime.wheel import Wheel
from penstock.testing import run_virtual

TICK = 0.05


class Entry:
    def __init__(self, when: float, settled: bool = False) -> None:
        self.when = when
        self.settled = settled
        self.fired: list[float] = []

    def expire(self) -> None:
        self.fired.append(asyncio.get_running_loop().time())


def new_wheel() -> Wheel:
    loop = asyncio.get_running_loop()
    return Wheel(loop, loop.time, TICK)


@pytest.mark.parametrize("when", [0.0, 0.001, 0.049, 0.05, 0.051, 0.1, 0.73, 3.1415, 60.0])
@pytest.mark.parametrize("added", [0.0, 0.02, 0.333])
def test_a_deadline_fires_once_within_two_ticks_and_never_before(when: float, added: float) -> None:
    async def body() -> None:
        await asyncio.sleep(added)
        wheel, entry = new_wheel(), Entry(added + when)
        wheel.add(entry)
        await asyncio.sleep(when + 1.0)
        (fired,) = entry.fired
        assert entry.when <= fired <= entry.when + 2 * TICK + 1e-9

    run_virtual(body())


def test_what_is_settled_is_left_alone() -> None:
    async def body() -> None:
        wheel, early, late = new_wheel(), Entry(0.5, settled=True), Entry(0.5)
        wheel.add(early)
        wheel.add(late)
        await asyncio.sleep(0.3)
        late.settled = True
        await asyncio.sleep(1.0)
        assert early.fired == late.fired == []

    run_virtual(body())


def test_an_entry_may_be_put_back_when_it_fires() -> None:
    async def body() -> None:
        wheel = new_wheel()

        class Twice(Entry):
            def expire(self) -> None:
                super().expire()
                if len(self.fired) == 1:
                    self.when += 1.0
                    wheel.add(self)

        entry = Twice(0.2)
        wheel.add(entry)
        await asyncio.sleep(3.0)
        first, second = entry.fired
        assert second - first == pytest.approx(1.0, abs=2 * TICK)

    run_virtual(body())


def test_one_that_fails_does_not_keep_the_others_from_theirs(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        class Broken(Entry):
            def expire(self) -> None:
                raise RuntimeError("no")

        wheel, entry = new_wheel(), Entry(0.1)
        wheel.add(Broken(0.1))
        wheel.add(entry)
        await asyncio.sleep(0.3)
        assert len(entry.fired) == 1

    with caplog.at_level(logging.CRITICAL):
        run_virtual(body())


def test_a_closed_wheel_fires_nothing_and_leaves_no_timer_behind() -> None:
    entry = Entry(0.1)

    async def body() -> None:
        wheel = new_wheel()
        wheel.add(entry)
        wheel.close()
        await asyncio.get_running_loop().create_future()

    with pytest.raises(RuntimeError, match="no timer is set"):
        run_virtual(body())
    assert entry.fired == []


def test_a_wheel_with_nothing_left_on_it_stops_turning() -> None:
    async def body() -> None:
        new_wheel().add(Entry(0.1))
        await asyncio.get_running_loop().create_future()

    with pytest.raises(RuntimeError, match="no timer is set"):
        run_virtual(body())
