"""One decision a turn, one timer, no wake-up lost."""

import asyncio
from collections.abc import Iterator
from random import Random

import pytest
from runtime_kit import WORKER, Observed, Station, ask

from penstock.core.batcher import Batcher
from penstock.core.effects import Effects
from penstock.core.rules import BatchingRules
from penstock.loops import MOST, SPAN
from penstock.runtime.pump import STUCK, Pump
from penstock.testing import Answer, MockBackend, VirtualClock, run_virtual
from penstock.types import Batch, Outcome, Reason, Request, Result, WorkerId


class Counting(Batcher):
    """A batcher that remembers when it was asked."""

    def __init__(self, policy: str) -> None:
        super().__init__(BatchingRules(policy=policy))
        self.steps: list[float] = []

    def step(self, now: float) -> Effects:
        self.steps.append(now)
        return super().step(now)


def pump_of(batcher: Batcher, taken: list[Batch] | None = None) -> Pump:
    loop = asyncio.get_running_loop()
    pump = Pump(batcher, lambda replies: None, Observed(), loop, loop.time, timer_grain=0.0)
    pump.attach(WORKER, ([] if taken is None else taken).append)
    pump.ready(WORKER)
    return pump


def test_however_many_arrive_in_one_turn_it_decides_once() -> None:
    async def body() -> None:
        taken: list[Batch] = []
        batcher = Counting("greedy")
        pump = pump_of(batcher, taken)
        for _ in range(50):
            pump.offer(ask())
        await asyncio.sleep(0.001)
        assert len(batcher.steps) == 1
        assert [batch.size for batch in taken] == [50]

    run_virtual(body())


def test_it_wakes_itself_when_the_batcher_asked_to_be_woken() -> None:
    async def body() -> None:
        taken: list[Batch] = []
        batcher = Counting("window")
        pump = pump_of(batcher, taken)
        pump.offer(ask())
        await asyncio.sleep(1.0)
        assert [batch.reason for batch in taken] == [Reason.DUE]
        assert batcher.steps == pytest.approx([0.0, 0.05])

    run_virtual(body())


def test_timers_are_rounded_up_to_the_loops_grain_never_down() -> None:
    async def body() -> None:
        loop, taken = asyncio.get_running_loop(), list[Batch]()
        pump = Pump(Batcher(BatchingRules(policy="window", max_wait=0.0101)), lambda replies: None,
                    Observed(), loop, loop.time, timer_grain=0.001)  # fmt: skip
        pump.attach(WORKER, taken.append)
        pump.ready(WORKER)
        pump.offer(ask())
        await asyncio.sleep(1.0)
        assert [batch.sealed for batch in taken] == pytest.approx([0.011])

    run_virtual(body())


def test_it_never_has_more_than_one_timer_set() -> None:
    async def body() -> None:
        loop = asyncio.get_running_loop()
        pump = pump_of(Counting("window"))
        for _ in range(200):
            pump.offer(ask(loop.time()))
            await asyncio.sleep(0.0003)
            set_now = [handle for handle in loop._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
            assert len(set_now) <= 1
        pump.close()

    run_virtual(body())


@pytest.mark.parametrize("policy", ["paced", "window", "ewma", "table", "greedy"])
@pytest.mark.parametrize("seed", range(5))
def test_no_wake_up_is_lost_so_everything_that_is_offered_is_answered(policy: str, seed: int) -> None:
    async def body() -> None:
        rng = Random(seed)
        backend = MockBackend(lambda batch: Answer(0.01 + 0.01 * rng.random()))
        async with Station(backend, policy=policy).running() as station:
            requests = []
            for _ in range(300):
                await asyncio.sleep(rng.expovariate(500))
                requests.append(station.ask())
            await asyncio.sleep(10.0)
        answered = [reply.request for _, reply in station.replies]
        assert sorted(map(id, answered)) == sorted(map(id, requests))

    run_virtual(body())


def test_a_worker_has_its_next_batch_before_those_of_the_last_are_answered() -> None:
    async def body() -> None:
        order: list[str] = []

        def runs(batch: Batch) -> Answer:
            order.append(f"run {batch.size}")
            return Answer(0.01)

        async with Station(MockBackend(runs)).running() as station:
            station.deliver = lambda replies: order.append(f"answer {len(replies)}")
            station.ask()
            await asyncio.sleep(0.005)
            station.send(ask(), ask())
            await asyncio.sleep(1.0)
        assert order == ["run 1", "run 2", "answer 1", "answer 2"]

    run_virtual(body())


def test_of_workers_elsewhere_many_may_be_heard_of_before_it_decides() -> None:
    async def body() -> None:
        taken: list[Batch] = []
        batcher = Counting("greedy")
        pump = pump_of(batcher, taken)
        other = WorkerId("other")
        pump.attach(other, taken.append)
        pump.ready(other)
        await asyncio.sleep(0.001)
        for _ in range(2):
            pump.offer(ask())
            await asyncio.sleep(0.001)
        before = len(batcher.steps)
        for worker, batch in zip((WORKER, other), taken, strict=True):
            pump.finished(worker, batch.id, Result([b"1"]))
        assert len(batcher.steps) == before
        await asyncio.sleep(0.001)
        assert len(batcher.steps) == before + 1
        assert batcher.fleet.busy == 0

    run_virtual(body())


def test_a_withdrawn_request_never_goes() -> None:
    async def body() -> None:
        taken: list[Batch] = []
        pump = pump_of(Counting("window"), taken)
        stays, leaves = ask(), ask()
        pump.offer(stays)
        pump.offer(leaves)
        pump.withdraw(leaves)
        await asyncio.sleep(1.0)
        assert [batch.requests for batch in taken] == [[stays]]

    run_virtual(body())


def test_draining_sends_what_there_is_at_once() -> None:
    async def body() -> None:
        taken: list[Batch] = []
        pump = pump_of(Counting("window"), taken)
        pump.offer(ask())
        pump.drain()
        await asyncio.sleep(0.001)
        assert [batch.reason for batch in taken] == [Reason.DRAIN]
        pump.close()

    run_virtual(body())


def test_what_a_lost_worker_had_in_hand_is_answered_or_tried_again() -> None:
    async def body() -> None:
        taken: list[Batch] = []
        batcher = Counting("greedy")
        pump = pump_of(batcher, taken)
        pump.offer(ask())
        await asyncio.sleep(0.001)
        pump.gone(WORKER, back_in=0.5)
        await asyncio.sleep(0.5)
        pump.ready(WORKER)
        await asyncio.sleep(0.5)
        assert [batch.retry for batch in taken] == [False, True]
        pump.finished(WORKER, taken[-1].id, Result([b"1"]))
        pump.close()

    run_virtual(body())


def test_a_batcher_that_cannot_decide_tries_again_and_is_dead_only_if_that_does_not_help() -> None:
    class Broken(Batcher):
        steps = 0
        well = False

        def step(self, now: float) -> Effects:
            self.steps += 1
            if self.well:
                return super().step(now)
            raise ZeroDivisionError

    async def body() -> None:
        batcher = Broken(BatchingRules())
        loop = asyncio.get_running_loop()
        pump = Pump(batcher, lambda replies: None, Observed(), loop, loop.time)
        pump.ready(WORKER)
        await asyncio.sleep(1.0)
        assert 1 < batcher.steps < MOST
        assert not pump.dead()
        await asyncio.sleep(SPAN / 2)
        assert "ZeroDivisionError" in pump.dead()[0]
        batcher.well = True
        await asyncio.sleep(SPAN)
        assert not pump.dead()
        pump.close()

    run_virtual(body())


def test_a_wake_up_missed_by_long_counts_as_stuck() -> None:
    async def body() -> None:
        loop, clock = asyncio.get_running_loop(), VirtualClock()
        pump = Pump(Batcher(BatchingRules(policy="window")), lambda replies: None, Observed(), loop, clock)
        pump.attach(WORKER, lambda batch: None)
        pump.ready(WORKER)
        pump.offer(ask())
        await asyncio.sleep(0.001)
        assert not pump.dead()
        clock.advance(STUCK + 1.0)  # the world's time passes, the loop's does not
        assert pump.dead() == ["the batcher of model is stuck"]
        pump.close()

    run_virtual(body())


def requests_of(batches: list[Batch]) -> Iterator[Request]:
    return (request for batch in batches for request in batch.requests)


def test_what_runs_out_of_time_is_answered_without_being_sent() -> None:
    async def body() -> None:
        backend = MockBackend([Answer(1.0)])
        async with Station(backend).running() as station:
            station.ask()
            await asyncio.sleep(0.1)
            late = station.ask(limit=0.2)
            await asyncio.sleep(2.0)
        assert late not in requests_of(backend.batches)
        outcomes = {reply.request.key: (at, reply.outcome) for at, reply in station.replies}
        at, outcome = outcomes[late.key]
        assert outcome is Outcome.EXPIRED
        assert late.expires < at < late.expires + 0.01

    run_virtual(body())


def test_a_host_of_shared_workers_is_told_when_one_is_wanted_and_not_when_one_is_held() -> None:
    async def body() -> None:
        loop, taken, wanted = asyncio.get_running_loop(), list[Batch](), list[float]()
        pump = Pump(
            Batcher(BatchingRules(policy="window", shared=True)), lambda replies: None, Observed(), loop, loop.time,
            timer_grain=0.0, on_wants=lambda: wanted.append(loop.time()),
        )  # fmt: skip
        pump.attach(WORKER, taken.append)
        pump.known(WORKER)
        await asyncio.sleep(1.0)
        assert wanted == [], "nothing waits"
        pump.offer(ask(loop.time()))
        await asyncio.sleep(0.01)
        assert wanted == pytest.approx([1.0])
        pump.ready(WORKER)
        await asyncio.sleep(0.01)
        pump.lent(WORKER)
        await asyncio.sleep(0.01)
        assert wanted == pytest.approx([1.0, 1.02]), "it was given back while something waited"
        pump.ready(WORKER)
        await asyncio.sleep(1.0)
        assert [batch.size for batch in taken] == [1]
        pump.close()

    run_virtual(body())


def test_a_worker_that_was_removed_is_forgotten_and_its_batch_tried_again_elsewhere() -> None:
    async def body() -> None:
        other, first, second = WorkerId("other"), list[Batch](), list[Batch]()
        pump = pump_of(Counting("greedy"), first)
        pump.attach(other, second.append)
        pump.offer(ask())
        await asyncio.sleep(0.001)
        pump.ready(other)
        pump.removed(WORKER)
        await asyncio.sleep(0.1)
        assert [batch.retry for batch in second] == [True]
        assert list(pump.batcher.fleet.workers) == [other]
        pump.finished(WORKER, first[0].id, Result([b"1"]))
        await asyncio.sleep(0.001)
        assert pump.batcher.fleet.busy == 1, "its late word changes nothing"
        pump.close()

    run_virtual(body())
