"""An output goes to those who asked for it, whatever batches a slot has from whichever batcher. Batchers number
their batches each for itself, so two of them may have the same number."""

import asyncio

import pytest
from dock_kit import Journal, workshop
from line_kit import FakeLine
from runtime_kit import WORKER, Observed, ask

from penstock.cluster.dock import RemoteDock
from penstock.errors import BackendUnavailable
from penstock.runtime.loading import LOADING
from penstock.testing import Answer, MockBackend, run_virtual
from penstock.types import Batch, Failure, Reason, Result
from penstock.words.messages import Dispatch

LOAD = LOADING + 0.3  # seconds that a first batch takes


def first_batch_loads(batch: Batch) -> Answer:
    return Answer(LOAD if batch.requests[0].input == b"1" else 0.2)


def test_two_batchers_whose_batches_have_one_number_each_get_their_own_answer() -> None:
    """The first batch takes long, so that the slot counts as loading. What was handed ahead is run after it, and by
    then another batcher's batch of the same number waits."""

    async def body() -> None:
        backend = MockBackend(first_batch_loads, runs_ahead=True)
        async with workshop(backend=backend, warm=False) as shop:
            shop.arrive("alice", b"1", number=5)
            shop.arrive("alice, ahead", b"2", number=6, ahead=True)
            await asyncio.sleep(LOAD + 0.05)
            shop.arrive("bob", b"3", number=6)
            await asyncio.sleep(1.0)
            answers = {order: outputs for kind, order, outputs in shop.journal.said if kind == "answer"}
            assert answers == {"alice": [b"1"], "alice, ahead": [b"2"], "bob": [b"3"]}
            assert shop.journal.ended() == {"alice": "ok", "alice, ahead": "ok", "bob": "ok"}
            assert [batch.requests[0].input for batch in backend.batches] == [b"1", b"2", b"3"]

    run_virtual(body())


def test_a_slot_that_loads_keeps_what_it_was_handed_ahead_and_sends_back_only_what_it_never_had() -> None:
    async def body() -> None:
        backend = MockBackend(first_batch_loads, runs_ahead=True)
        async with workshop(backend=backend, warm=False) as shop:
            shop.line.slots.clear()
            shop.arrive("first", b"1")
            shop.arrive("ahead", b"2", ahead=True)
            shop.arrive("behind", b"3")
            await asyncio.sleep(LOADING + 0.1)
            assert not shop.dock.is_ready(WORKER)
            [(_, sent_back, outcome)] = shop.journal.said
            assert sent_back == "behind"
            assert isinstance(outcome, Failure)
            assert outcome.code == BackendUnavailable.code
            shop.arrive("while it loads", b"4")
            await asyncio.sleep(1.0)
            ended = shop.journal.ended()
            assert isinstance(ended.pop("while it loads"), Failure)
            assert (ended.pop("first"), ended.pop("ahead")) == ("ok", "ok")
            assert [batch.requests[0].input for batch in backend.batches] == [b"1", b"2"]
            assert (shop.line.slots, shop.dock.busy) == ([WORKER], False)

    run_virtual(body())


@pytest.mark.parametrize("number", [7, 8])
def test_one_in_hand_and_one_ahead_of_the_same_number_end_each_for_itself(number: int) -> None:
    async def body() -> None:
        async with workshop(backend=MockBackend([Answer(1.0)], runs_ahead=True)) as shop:
            shop.arrive("alice", b"1", number=7)
            shop.arrive("bob", b"2", number=number, ahead=True)
            await asyncio.sleep(2.5)
            answers = [(order, outputs) for kind, order, outputs in shop.journal.said if kind == "answer"]
            assert answers == [("alice", [b"1"]), ("bob", [b"2"])]

    run_virtual(body())


def test_an_answer_to_a_batch_that_went_back_is_given_to_nobody() -> None:
    """A slot should not answer what it has let go of. If it does, another batcher's batch may be in its place."""

    async def body() -> None:
        journal, line = Journal(), FakeLine()
        dock = RemoteDock("model", line, journal, Observed(), asyncio.get_running_loop().time)
        taken: list[Batch] = []
        dock.attach(WORKER, taken.append)

        def arrive(batcher: str, text: bytes) -> None:
            batch = Batch(6, "model", b"", [ask(text=text)], Reason.DUE, 0.0)
            dock.arrived(WORKER, Dispatch(6, batcher, WORKER, "model", b"", []), batch)

        dock.ready(WORKER)
        arrive("alice", b"1")
        dock.gone(WORKER, None)
        dock.ready(WORKER)
        arrive("bob", b"2")
        [old, new] = taken
        dock.finished(WORKER, old.id, Result([b"1"]))
        dock.finished(WORKER, new.id, Result([b"2"]))
        await asyncio.sleep(0.1)
        answers = [(order, outputs) for kind, order, outputs in journal.said if kind == "answer"]
        assert answers == [("bob", [b"2"])]

    run_virtual(body())
