"""A batcher borrows workers it shares with others, late, and gives them back."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from line_kit import FakeLine
from runtime_kit import Observed, ask

from penstock.cluster.borrowing import HELD, PATIENCE, Borrower
from penstock.core.batcher import Batcher
from penstock.core.rules import BatchingRules
from penstock.runtime.collapse.passenger import Passenger
from penstock.runtime.pump import Pump
from penstock.testing import run_virtual
from penstock.types import Batch, Failure, Reply, Result, WorkerId


class Counter:
    """One model's pump that shares its workers."""

    def __init__(self, line: FakeLine, **rules: Any) -> None:
        self.loop = asyncio.get_running_loop()
        self.line = line
        self.dead: set[str] = set()
        self.sent: list[tuple[float, str, int]] = []
        self.replies: list[Reply] = []
        self._batches: dict[str, Batch] = {}
        self.pump = Pump(
            Batcher(BatchingRules(shared=True, **rules)), self._deliver, Observed(), self.loop, self.loop.time,
            timer_grain=0.0,
        )  # fmt: skip
        self.borrower = Borrower(
            "model", self.pump, line, self._send, lambda slot: slot in self.dead, self.loop.time
        )

    def _send(self, worker: WorkerId, batch: Batch) -> None:
        self.sent.append((self.loop.time(), worker, batch.size))
        self._batches[worker] = batch

    def _deliver(self, replies: Sequence[Reply]) -> None:
        self.replies += replies

    def ask(self, number: int = 1, **options: Any) -> list[Passenger]:
        requests = [ask(self.loop.time(), **options) for _ in range(number)]
        for request in requests:
            self.pump.offer(request)
        return requests

    async def done(self, worker: str, outcome: Failure | None = None) -> None:
        """The worker has finished, and stands in the line again."""
        batch = self._batches.pop(worker)
        self.pump.finished(WorkerId(worker), batch.id, outcome or Result(delivered=batch.size))
        await self.line.post("model", worker)

    @property
    def workers(self) -> list[str]:
        """Who was sent a batch, in turn."""
        return [worker for _, worker, _ in self.sent]


@asynccontextmanager
async def borrowing(line: FakeLine, **rules: Any) -> AsyncIterator[Counter]:
    counter = Counter(line, **rules)
    task = asyncio.create_task(counter.borrower.run())
    await asyncio.sleep(0.001)
    try:
        yield counter
    finally:
        task.cancel()
        await asyncio.wait([task])
        counter.pump.close()


def test_nobody_is_borrowed_while_nothing_waits() -> None:
    async def body() -> None:
        line = FakeLine("a", "b")
        async with borrowing(line, policy="greedy") as counter:
            await asyncio.sleep(10)
            assert (line.takes, line.slots) == (0, ["a", "b"])
            counter.ask()
            await asyncio.sleep(0.001)
            assert counter.workers == ["a"]
            assert line.slots == ["b"]
            await asyncio.sleep(10)
            assert (line.takes, line.takers) == (1, 0)

    run_virtual(body())


def test_what_comes_while_the_borrowed_are_busy_borrows_the_next() -> None:
    async def body() -> None:
        line = FakeLine("a", "b")
        async with borrowing(line, policy="greedy") as counter:
            for expected in (["a"], ["a", "b"], ["a", "b"]):
                counter.ask()
                await asyncio.sleep(0.001)
                assert counter.workers == expected
            assert line.takers == 1  # it stands at the line for the third
            await counter.done("b")
            await asyncio.sleep(0.001)
            assert counter.workers == ["a", "b", "b"]

    run_virtual(body())


def test_a_worker_is_held_until_its_batch_is_due_and_no_second_is_taken_meanwhile() -> None:
    async def body() -> None:
        line = FakeLine("a", "b")
        async with borrowing(line, policy="window", max_batch=8, max_wait=2.0) as counter:
            began = counter.loop.time()
            counter.ask()
            await asyncio.sleep(1.0)
            counter.ask()
            assert (line.slots, line.takes, counter.sent) == (["b"], 1, [])
            await asyncio.sleep(1.5)
            ((when, worker, size),) = counter.sent
            assert (round(when - began, 3), worker, size) == (2.0, "a", 2)

    run_virtual(body())


def test_a_worker_held_for_nothing_goes_back_into_the_line() -> None:
    async def body() -> None:
        line = FakeLine("a")
        async with borrowing(line, policy="window", max_batch=8, max_wait=5.0) as counter:
            (request,) = counter.ask()
            await asyncio.sleep(3)
            assert line.slots == []
            counter.pump.withdraw(request)  # its client left
            await asyncio.sleep(2 * HELD + 0.01)
            assert line.slots == ["a"]
            await asyncio.sleep(5)
            assert len(line.posted) == 1
            counter.ask(8)
            await asyncio.sleep(0.001)
            assert counter.workers == ["a"]

    run_virtual(body())


def test_a_request_that_comes_just_after_finds_the_worker_still_here() -> None:
    async def body() -> None:
        line = FakeLine("a")
        async with borrowing(line, policy="window", max_batch=2, max_wait=5.0) as counter:
            (request,) = counter.ask()
            await asyncio.sleep(1)
            counter.pump.withdraw(request)
            await asyncio.sleep(HELD / 2)
            counter.ask(2)
            await asyncio.sleep(0.001)
            assert counter.workers == ["a"]
            assert (line.takes, line.posted) == (1, [])

    run_virtual(body())


def test_the_place_of_a_process_that_died_is_passed_over() -> None:
    async def body() -> None:
        line = FakeLine("dead/0", "dead/1", "a")
        async with borrowing(line, policy="greedy") as counter:
            counter.dead = {"dead/0", "dead/1"}
            counter.ask()
            await asyncio.sleep(0.001)
            assert counter.workers == ["a"]
            assert line.slots == []

    run_virtual(body())


def test_an_empty_line_is_stood_at_for_as_long_as_something_waits() -> None:
    async def body() -> None:
        line = FakeLine()
        async with borrowing(line, policy="greedy") as counter:
            counter.ask(limit=10 * PATIENCE)
            await asyncio.sleep(3.5 * PATIENCE)
            assert line.takers == 1
            await line.post("model", "late")
            await asyncio.sleep(0.001)
            assert counter.workers == ["late"]

    run_virtual(body())


def test_nobody_stands_at_the_line_once_all_have_given_up() -> None:
    async def body() -> None:
        line = FakeLine()
        async with borrowing(line, policy="greedy") as counter:
            counter.ask(3, limit=1.5 * PATIENCE)
            await asyncio.sleep(3 * PATIENCE)
            assert [reply.outcome for reply in counter.replies] == ["EXPIRED"] * 3
            assert line.takers == 0
            await line.post("model", "late")
            await asyncio.sleep(5)
            assert line.slots == ["late"]

    run_virtual(body())


def test_an_outage_of_the_line_is_outlived() -> None:
    async def body() -> None:
        line = FakeLine()
        async with borrowing(line, policy="greedy") as counter:
            counter.ask()
            await asyncio.sleep(0.5)
            line.go_down()
            await asyncio.sleep(20)
            line.down = False
            await line.post("model", "a")
            await asyncio.sleep(0.2)
            assert counter.workers == ["a"]

    run_virtual(body())


def test_a_worker_that_cannot_be_given_back_is_let_go_all_the_same() -> None:
    """It says itself that it is free, as soon as it can."""

    async def body() -> None:
        line = FakeLine("a")
        async with borrowing(line, policy="window", max_batch=8, max_wait=5.0) as counter:
            (request,) = counter.ask()
            await asyncio.sleep(1)
            line.go_down()
            counter.pump.withdraw(request)
            await asyncio.sleep(2)
            line.down = False
            counter.ask(8)
            await asyncio.sleep(1)
            assert counter.sent == []  # another may have it by now
            await line.post("model", "a")
            await asyncio.sleep(0.001)
            assert counter.workers == ["a"]

    run_virtual(body())


def test_what_failed_borrows_a_worker_when_its_second_try_is_due() -> None:
    async def body() -> None:
        line = FakeLine("a")
        async with borrowing(line, policy="greedy") as counter:
            counter.ask()
            await asyncio.sleep(0.001)
            await counter.done("a", Failure("BACKEND_FAILED", "it broke"))
            await asyncio.sleep(5)
            assert counter.workers == ["a", "a"]
            await counter.done("a")
            await asyncio.sleep(1)
            assert line.slots == ["a"]

    run_virtual(body())
