"""A worker's slots, fed by batchers elsewhere: one batch at a time, and word of each."""

import asyncio
from itertools import pairwise

import pytest
from dock_kit import Journal, workshop
from runtime_kit import WORKER, ask

from penstock.cluster.dock import AGAIN, SOON
from penstock.errors import BackendCrashed, BackendUnavailable, BatchRejected
from penstock.testing import Answer, MockBackend, run_virtual
from penstock.types import Batch, Execution, Failure, Reason, Result, WorkerId
from penstock.words.messages import Dispatch


def test_a_slot_stands_in_the_line_when_it_is_ready_and_not_before() -> None:
    async def body() -> None:
        async with workshop(start_seconds=2.5) as shop:
            await asyncio.sleep(2)
            assert (shop.line.posted, shop.dock.is_ready(WORKER)) == ([], False)
            await asyncio.sleep(0.6)
            assert shop.line.slots == [WORKER]

    run_virtual(body())


def test_outputs_go_to_the_askers_first_and_word_to_the_batcher_after() -> None:
    async def body() -> None:
        async with workshop(Answer(seconds=0.5)) as shop:
            shop.arrive("one", b"1", b"2")
            await asyncio.sleep(0.1)
            assert shop.dock.in_flight(WORKER) == 2
            await asyncio.sleep(1)
            assert shop.journal.said == [("answer", "one", [b"1", b"2"]), ("finished", "one", "ok")]
            assert shop.dock.in_flight(WORKER) == 0
            assert (shop.dock.batches[WORKER], round(shop.dock.busy_seconds[WORKER], 6)) == (1, 0.5)

    run_virtual(body())


def test_a_slot_is_in_the_line_again_before_its_answers_are_told() -> None:
    async def body() -> None:
        async with workshop(Answer(seconds=0.1)) as shop:
            shop.line.slots.clear()  # a batcher has taken it
            shop.journal.seconds = 5.0
            shop.arrive("one")
            await asyncio.sleep(0.11)
            assert shop.line.slots == [WORKER]
            assert shop.journal.said == []

    run_virtual(body())


def test_a_batch_that_is_there_already_begins_before_the_last_one_is_answered() -> None:
    async def body() -> None:
        order: list[str] = []

        class Watched(Journal):
            async def answer(self, asked: Dispatch, result: Result, execution: Execution) -> None:
                order.append(f"answer {asked.batcher}")

        def runs(batch: Batch) -> Answer:
            order.append(f"run {batch.size}")
            return Answer(0.1)

        async with workshop(backend=MockBackend(runs), journal=Watched()) as shop:
            shop.arrive("one")
            shop.arrive("two", b"1", b"2")
            await asyncio.sleep(1.0)
        assert order == ["run 1", "run 2", "answer one", "answer two"]

    run_virtual(body())


def test_a_slot_that_stays_free_says_so_again_and_again() -> None:
    """A batcher may have died with it."""

    async def body() -> None:
        async with workshop() as shop:
            for _ in range(5):
                shop.line.slots.clear()
                await asyncio.sleep(AGAIN)
                assert shop.line.slots == [WORKER]

    run_virtual(body())


def test_a_slot_that_enters_the_line_of_a_bus_that_stood_still_says_so_again_soon() -> None:
    async def body() -> None:
        async with workshop(Answer(seconds=0.1)) as shop:
            shop.arrive("one")
            shop.line.slots.clear()
            shop.line.seconds = 0.5
            await asyncio.sleep(0.65)
            shop.line.seconds = 0.0
            assert shop.line.slots == [WORKER]
            shop.line.slots.clear()  # it was given to a batcher that no longer waits
            await asyncio.sleep(SOON)
            assert shop.line.slots == [WORKER]

    run_virtual(body())


def test_a_bus_that_is_always_slow_has_not_stood_still() -> None:
    async def body() -> None:
        async with workshop(Answer(seconds=0.1)) as shop:
            shop.line.seconds = 0.3  # on the way to a Redis that is far away
            await asyncio.sleep(10 * AGAIN)  # enough to learn that
            shop.line.posted.clear()
            await asyncio.sleep(5 * (AGAIN + 0.3))
            apart = {round(later - earlier, 3) for (earlier, _), (later, _) in pairwise(shop.line.posted)}
            assert apart == {AGAIN + 0.3}

    run_virtual(body())


def test_a_slot_at_work_does_not_say_that_it_is_free() -> None:
    async def body() -> None:
        async with workshop(Answer(seconds=2.9)) as shop:
            shop.line.slots.clear()
            shop.arrive("one")
            await asyncio.sleep(2.8)
            assert shop.line.slots == []
            await asyncio.sleep(0.2)
            assert shop.line.slots == [WORKER]

    run_virtual(body())


def test_a_second_batch_waits_for_the_first() -> None:
    async def body() -> None:
        async with workshop(Answer(seconds=1.0)) as shop:
            shop.line.slots.clear()
            shop.arrive("one")
            shop.arrive("two")
            await asyncio.sleep(0.9)
            assert len(shop.backend.batches) == 1
            await asyncio.sleep(0.2)
            assert (len(shop.backend.batches), shop.line.slots) == (2, [])
            assert shop.journal.ended() == {"one": "ok"}
            await asyncio.sleep(1)
            assert shop.journal.ended() == {"one": "ok", "two": "ok"}
            assert shop.line.slots == [WORKER]

    run_virtual(body())


def test_a_batch_for_a_slot_that_is_not_ready_or_not_here_is_sent_back() -> None:
    async def body() -> None:
        async with workshop(start_seconds=10.0) as shop:
            shop.arrive("early")
            astray = Dispatch(1, "astray", "model/77", "model", b"", [])
            batch = Batch(1, "model", b"", [ask()], Reason.DUE, 0.0)
            shop.dock.arrived(WorkerId("model/77"), astray, batch)
            await asyncio.sleep(0.001)
            for outcome in (shop.journal.ended()["early"], shop.journal.ended()["astray"]):
                assert isinstance(outcome, Failure)
                assert (outcome.code, outcome.splittable) == (BackendUnavailable.code, False)
            assert shop.backend.batches == []

    run_virtual(body())


def test_a_wrong_number_of_outputs_is_a_failure_that_may_be_split_and_nobody_is_answered() -> None:
    async def body() -> None:
        async with workshop(Answer(outputs=(b"1",))) as shop:
            shop.arrive("one", b"1", b"2")
            await asyncio.sleep(0.001)
            ((kind, _, failure),) = shop.journal.said
            assert kind == "finished"
            assert isinstance(failure, Failure)
            assert failure.splittable
            assert failure.message == "the backend gave 1 outputs for 2 inputs"

    run_virtual(body())


def test_a_failure_is_told_to_the_batcher_alone_and_the_slot_goes_on() -> None:
    async def body() -> None:
        async with workshop(Answer(error=BatchRejected("no", details="why")), Answer()) as shop:
            shop.arrive("one")
            await asyncio.sleep(0.001)
            assert shop.journal.said == [
                ("finished", "one", Failure("BACKEND_FAILED", "no", "why", splittable=True))
            ]
            shop.arrive("two")
            await asyncio.sleep(0.001)
            assert shop.journal.ended()["two"] == "ok"

    run_virtual(body())


def test_a_slot_whose_backend_is_gone_leaves_the_line_until_it_is_back() -> None:
    async def body() -> None:
        async with workshop(Answer(error=BackendCrashed("dead")), Answer(), start_seconds=2.0) as shop:
            await asyncio.sleep(2.0)
            shop.arrive("fatal")
            shop.arrive("behind it")
            await asyncio.sleep(0.05)
            ended = shop.journal.ended()
            assert isinstance(fatal := ended["fatal"], Failure)
            assert fatal.code == "BACKEND_CRASHED"
            assert (shop.line.slots, shop.dock.is_ready(WORKER)) == ([], False)
            await asyncio.sleep(5)
            assert shop.line.slots == [WORKER]
            assert isinstance(behind := shop.journal.ended()["behind it"], Failure)
            assert behind.code == BackendUnavailable.code
            assert len(shop.backend.batches) == 1  # and what was sent back is never run all the same

    run_virtual(body())


class Sick(MockBackend):
    """Its first probe takes a second, and fails."""

    async def probe(self) -> float:
        await asyncio.sleep(1)
        return await super().probe()


def test_a_batch_that_arrives_during_a_probe_that_fails_is_sent_back() -> None:
    async def body() -> None:
        async with workshop(backend=Sick(probe_errors=[BackendUnavailable("sick")])) as shop:
            await asyncio.sleep(5.5)
            shop.arrive("one")
            await asyncio.sleep(1)
            assert shop.line.withdrawn[WORKER] == 1
            assert isinstance(outcome := shop.journal.ended()["one"], Failure)
            assert outcome.code == BackendUnavailable.code
            await asyncio.sleep(1)
            shop.arrive("two")
            await asyncio.sleep(0.001)
            assert shop.journal.ended()["two"] == "ok"

    run_virtual(body())


def test_an_outage_of_the_line_is_outlived_and_what_arrives_meanwhile_is_done() -> None:
    async def body() -> None:
        async with workshop() as shop:
            shop.line.slots.clear()
            shop.line.go_down()
            shop.arrive("one")
            await asyncio.sleep(10)
            assert shop.journal.ended() == {"one": "ok"}
            assert shop.line.slots == []
            shop.line.down = False
            await asyncio.sleep(AGAIN)
            assert shop.line.slots == [WORKER]

    run_virtual(body())


def test_draining_finishes_what_is_in_hand_and_offers_nothing_more() -> None:
    async def body() -> None:
        async with workshop(Answer(seconds=1.0)) as shop:
            shop.journal.seconds = 0.5
            shop.arrive("one")
            shop.arrive("two")
            draining = asyncio.create_task(shop.dock.drain())
            await asyncio.sleep(0.1)
            assert shop.line.slots == []
            await draining
            assert shop.journal.ended() == {"one": "ok", "two": "ok"}
            await asyncio.sleep(5 * AGAIN)
            assert shop.line.slots == []

    run_virtual(body())


def test_draining_ends_although_the_line_cannot_be_reached() -> None:
    async def body() -> None:
        async with workshop() as shop:
            shop.line.go_down()
            await shop.dock.drain()
            assert not shop.dock.busy

    run_virtual(body())


def test_a_worker_tells_its_own_observers_of_what_it_runs_and_how_that_ends() -> None:
    async def body() -> None:
        async with workshop(Answer(0.5), Answer(0.5, error=BatchRejected("no"))) as shop:
            for order in ("first", "second"):
                shop.arrive(order)
                await asyncio.sleep(1.0)
            observed = shop.observed
            (_, well, none), (_, failed, failure) = observed.endings
            assert [each[0] for each in observed.endings] == observed.batches
            assert none is None
            assert failure is not None
            assert failure.message == "no"
            assert round(well.seconds, 3) == round(failed.seconds, 3) == 0.5
            assert well.started == well.sent

    run_virtual(body())


def test_a_batch_that_is_handed_ahead_is_with_the_backend_before_the_one_in_hand_ends() -> None:
    async def body() -> None:
        backend = MockBackend([Answer(seconds=1.0)], runs_ahead=True)
        async with workshop(backend=backend) as shop:
            shop.line.slots.clear()
            shop.arrive("one")
            await asyncio.sleep(0.5)
            shop.arrive("next", ahead=True)
            await asyncio.sleep(0.1)
            assert (backend.given, len(backend.batches)) == (2, 1)
            assert shop.dock.in_flight(WORKER) == 1
            await asyncio.sleep(0.5)
            assert (len(backend.batches), shop.line.slots) == (2, [])
            await asyncio.sleep(1)
            assert shop.journal.ended() == {"one": "ok", "next": "ok"}
            assert shop.line.slots == [WORKER]
            assert [batch.ahead for batch in backend.batches] == [False, True]
            assert shop.dock.busy_seconds[WORKER] == pytest.approx(2.0)

    run_virtual(body())


def test_one_handed_ahead_too_late_begins_at_once_and_its_slot_leaves_the_line() -> None:
    async def body() -> None:
        async with workshop(Answer(seconds=0.5)) as shop:
            shop.arrive("one")
            await asyncio.sleep(0.6)
            assert shop.line.slots == [WORKER]
            shop.arrive("next", ahead=True)
            await asyncio.sleep(0.1)
            assert (len(shop.backend.batches), shop.line.slots) == (2, [])
            await asyncio.sleep(0.5)
            assert (shop.journal.ended()["next"], shop.line.slots) == ("ok", [WORKER])

    run_virtual(body())


def test_a_slot_that_was_taken_from_the_line_before_a_late_batch_leaves_it_at_the_next() -> None:
    async def body() -> None:
        async with workshop(Answer(seconds=0.5), Answer(seconds=0.5), Answer(seconds=0.5)) as shop:
            shop.arrive("one")
            await asyncio.sleep(0.6)
            assert await shop.line.take("model", 0.0) == WORKER  # by a batcher whose batch is not here yet
            shop.arrive("late", ahead=True)
            await asyncio.sleep(0.6)
            assert shop.line.slots == [WORKER]
            shop.arrive("of who took it")
            await asyncio.sleep(0.1)
            assert shop.line.slots == [], "a slot at work is offered to nobody else"
            await asyncio.sleep(0.5)
            assert shop.line.slots == [WORKER]

    run_virtual(body())


def test_a_slot_that_is_free_again_before_it_could_leave_the_line_stays_there() -> None:
    async def body() -> None:
        async with workshop(Answer(seconds=0.5), Answer(seconds=0.1)) as shop:
            shop.arrive("one")
            await asyncio.sleep(0.6)
            shop.line.seconds = 0.2
            shop.arrive("short", ahead=True)
            await asyncio.sleep(0.7)
            assert shop.journal.ended() == {"one": "ok", "short": "ok"}
            assert shop.line.slots == [WORKER]

    run_virtual(body())


def test_one_handed_ahead_goes_behind_one_that_waits_already() -> None:
    """Two batchers had taken the slot. The slot runs batches in the order in which it is told that they begin."""

    async def body() -> None:
        backend = MockBackend([Answer(seconds=1.0)], runs_ahead=True)
        async with workshop(backend=backend) as shop:
            for order, ahead in (("one", False), ("another's", False), ("next", True)):
                shop.arrive(order, ahead=ahead)
            await asyncio.sleep(3.5)
            assert [order for kind, order, _ in shop.journal.said if kind == "finished"] == [
                "one", "another's", "next",
            ]  # fmt: skip
            assert shop.dock.batches[WORKER] == 3

    run_virtual(body())


def test_what_was_handed_ahead_to_a_slot_that_dies_goes_back() -> None:
    async def body() -> None:
        backend = MockBackend([Answer(seconds=1.0, error=BackendCrashed("dead"))], runs_ahead=True)
        async with workshop(backend=backend) as shop:
            shop.arrive("fatal")
            shop.arrive("next", ahead=True)
            await asyncio.sleep(1.1)
            assert isinstance(ended := shop.journal.ended()["next"], Failure)
            assert ended.code == BackendUnavailable.code
            assert len(backend.batches) == 1

    run_virtual(body())


def test_a_slot_that_leaves_is_handed_nothing_ahead() -> None:
    async def body() -> None:
        async with workshop(Answer(seconds=1.0)) as shop:
            shop.arrive("one")
            await asyncio.sleep(0.5)
            leaving = asyncio.create_task(shop.dock.drain())
            await asyncio.sleep(0.1)
            shop.arrive("next", ahead=True)
            await leaving
            ended = shop.journal.ended()
            assert ended["one"] == "ok"
            assert isinstance(sent_back := ended["next"], Failure)
            assert sent_back.code == BackendUnavailable.code

    run_virtual(body())


def test_the_ends_of_batches_are_told_in_their_order() -> None:
    """The first answers take long to tell: the batcher must not hear of the second batch before."""

    async def body() -> None:
        class SlowOnce(Journal):
            async def answer(self, batch: Dispatch, result: Result, execution: Execution) -> None:
                await asyncio.sleep(5.0 if batch.batcher == "one" else 0.0)
                await super().answer(batch, result, execution)

        backend = MockBackend([Answer(seconds=0.1)], runs_ahead=True)
        async with workshop(backend=backend, journal=SlowOnce()) as shop:
            shop.arrive("one")
            shop.arrive("next", ahead=True)
            await asyncio.sleep(10)
            assert [(kind, order) for kind, order, _ in shop.journal.said] == [
                ("answer", "one"), ("finished", "one"), ("answer", "next"), ("finished", "next"),
            ]  # fmt: skip

    run_virtual(body())
