"""A backend that says it is nearly full, while its slot has been handed the next batch ahead. The slot may end that
batch in the very turn of the loop in which it ended the one before."""

import asyncio

import pytest
from dock_kit import Workshop, workshop
from runtime_kit import WORKER

from penstock.errors import BackendCrashed
from penstock.runtime.vitals import FULL
from penstock.testing import Answer, MockBackend, run_virtual
from penstock.types import Batch, Failure, Result

NEARLY = FULL + 0.05


class Told(MockBackend):
    """Answers a batch when the test says so, and two at once if that is what it says."""

    def __init__(self) -> None:
        super().__init__(runs_ahead=True)
        self.asked: list[asyncio.Future[Result]] = []

    async def run(self, batch: Batch) -> Result:
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.asked.append(answer)
        self.batches.append(batch)
        return await answer

    def answer(self, place: int, pressure: float = 0.0) -> None:
        self.asked[place].set_result(Result([self.batches[place].requests[0].input], pressure=pressure))


async def two_given(shop: Workshop, backend: Told) -> None:
    """The backend has a batch that it was given ahead and that has begun, and the next one."""
    shop.arrive("zero", b"0")
    await asyncio.sleep(0.1)
    shop.arrive("one", b"1", ahead=True)
    await asyncio.sleep(0.1)
    backend.answer(0)
    await asyncio.sleep(0.1)
    shop.arrive("two", b"2", ahead=True)
    await asyncio.sleep(0.1)
    assert len(backend.asked) == 3
    shop.line.slots.clear()


@pytest.mark.parametrize("pressure", [0.0, NEARLY], ids=["it has room again", "it is still full"])
@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_two_batches_that_end_at_once_both_have_their_answers_and_the_slot_goes_on(
    pressure: float, turns: int
) -> None:
    """`turns`: of the loop between the two answers."""

    async def body() -> None:
        backend = Told()
        async with workshop(backend=backend) as shop:
            await two_given(shop, backend)
            backend.answer(1, NEARLY)
            for _ in range(turns):
                await asyncio.sleep(0)
            backend.answer(2, pressure)
            await asyncio.sleep(0.1)
            answers = [(order, outputs) for kind, order, outputs in shop.journal.said if kind == "answer"]
            assert answers == [("zero", [b"0"]), ("one", [b"1"]), ("two", [b"2"])]
            assert shop.journal.ended() == dict.fromkeys(("zero", "one", "two"), "ok")
            assert not shop.dock.busy
            assert shop.dock.batches[WORKER] == len(shop.observed.batches) == len(shop.observed.endings) == 3
            await asyncio.sleep(5.0)  # by now a backend that was full has said that it has room
            assert shop.line.slots == [WORKER]
            shop.arrive("three", b"3")
            await asyncio.sleep(0.1)
            backend.answer(3)
            await asyncio.sleep(0.1)
            assert shop.journal.ended()["three"] == "ok"

    run_virtual(body())


def test_one_that_waits_behind_two_that_end_at_once_is_run_next() -> None:
    async def body() -> None:
        backend = Told()
        async with workshop(backend=backend) as shop:
            await two_given(shop, backend)
            shop.arrive("another's", b"3")
            backend.answer(1, NEARLY)
            backend.answer(2)
            await asyncio.sleep(0.1)
            backend.answer(3)
            await asyncio.sleep(0.1)
            assert shop.journal.ended() == dict.fromkeys(("zero", "one", "two", "another's"), "ok")
            assert not shop.dock.busy

    run_virtual(body())


def test_a_short_batch_that_was_handed_ahead_ends_in_the_turn_of_the_one_before() -> None:
    """Its backend takes one batch at a time, and answers this one without waiting for anything."""

    async def body() -> None:
        script = [Answer(0.5, pressure=NEARLY), Answer(0.0)]
        async with workshop(*script) as shop:
            shop.arrive("one", b"1")
            await asyncio.sleep(0.1)
            shop.arrive("two", b"2", ahead=True)
            await asyncio.sleep(0.6)
            assert shop.journal.ended() == {"one": "ok", "two": "ok"}
            assert not shop.dock.busy

    run_virtual(body())


def test_what_was_handed_ahead_to_a_slot_that_dies_in_that_turn_never_counts_as_begun() -> None:
    async def body() -> None:
        backend = MockBackend([Answer(0.5, error=BackendCrashed("dead"), pressure=NEARLY)], runs_ahead=True)
        async with workshop(backend=backend) as shop:
            shop.arrive("fatal", b"1")
            await asyncio.sleep(0.1)
            shop.arrive("two", b"2", ahead=True)
            await asyncio.sleep(0.45)
            assert isinstance(shop.journal.ended()["two"], Failure)
            assert len(shop.observed.batches) == len(shop.observed.endings) == 1
            assert not shop.dock.busy

    run_virtual(body())
