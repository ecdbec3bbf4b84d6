"""The next batch is in the function's process while one runs: what becomes of both, whatever happens."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from process_kit import FUNCTIONS, Runner, Started, batch, each_loop, is_gone, outputs

from penstock.adapters.backends.process import ProcessBackend
from penstock.core.batcher import Batcher
from penstock.core.queued import Queued
from penstock.core.rules import BatchingRules
from penstock.errors import BackendCrashed, BackendUnavailable, BatchRejected
from penstock.ports import Observer
from penstock.runtime.pump import Pump
from penstock.runtime.slot import Slot
from penstock.types import Reply, Result, Rung, WarmUp, WorkerId

pytestmark = pytest.mark.usefixtures("patient_processes")


class Pipes:
    """What a batch of `told` says and hears."""

    def __init__(self, folder: Path, name: str) -> None:
        self._begun, self._then = folder / f"{name}-begun", folder / f"{name}-then"
        os.mkfifo(self._begun)
        os.mkfifo(self._then)
        self.given = {"begun": str(self._begun), "then": str(self._then)}

    async def begins(self) -> None:
        await asyncio.to_thread(self._begun.read_text)

    async def then(self, what: str) -> None:
        await asyncio.to_thread(self._then.write_text, what)

    async def answers(self) -> None:
        await self.begins()
        await self.then("answer")


class Told(Pipes):
    """A batch that does what it is told once it has begun."""

    def __init__(self, backend: ProcessBackend, folder: Path, name: str) -> None:
        super().__init__(folder, name)
        self.running: asyncio.Task[Result] = asyncio.ensure_future(backend.run(batch(self.given)))

    async def answer(self) -> Any:
        return (await self.running).outputs


@each_loop
@pytest.mark.parametrize("what", ["answer", "print", "fork"])
def test_the_next_batch_begins_when_the_first_has_ended(run_loop: Runner, tmp_path: Path, what: str) -> None:
    async def body() -> None:
        async with Started("told") as backend:
            first, second = Told(backend, tmp_path, "1"), Told(backend, tmp_path, "2")
            await first.begins()
            await first.then(what)
            await second.begins()
            assert await first.answer() == [b'"%s"' % what.encode()]
            third = Told(backend, tmp_path, "3")
            await second.then(what)
            await third.begins()
            await third.then("last")
            assert [await second.answer(), await third.answer()] == [[b'"%s"' % what.encode()], [b'"last"']]

    run_loop(body())


def test_a_third_is_refused_and_the_two_are_unharmed(tmp_path: Path) -> None:
    async def body() -> None:
        async with Started("told") as backend:
            first, second = Told(backend, tmp_path, "1"), Told(backend, tmp_path, "2")
            await first.begins()
            with pytest.raises(BackendUnavailable, match="not free"):
                await backend.run(batch("third"))
            await first.then("answer")
            assert await first.answer() == [b'"answer"']
            await second.begins()
            await second.then("answer")
            assert await second.answer() == [b'"answer"']

    asyncio.run(body())


def test_one_that_is_refused_leaves_the_next_one_unharmed(tmp_path: Path) -> None:
    async def body() -> None:
        async with Started("told") as backend:
            first, second = Told(backend, tmp_path, "1"), Told(backend, tmp_path, "2")
            await first.begins()
            await first.then("raise")
            with pytest.raises(BatchRejected, match="ValueError"):
                await first.answer()
            await second.begins()
            await second.then("answer")
            assert await second.answer() == [b'"answer"']

    asyncio.run(body())


@each_loop
@pytest.mark.parametrize("how", ["die", "exit"])
def test_a_death_in_the_first_takes_both(run_loop: Runner, tmp_path: Path, how: str) -> None:
    async def body() -> None:
        async with Started("told") as backend:
            first, second = Told(backend, tmp_path, "1"), Told(backend, tmp_path, "2")
            await first.begins()
            await first.then(how)
            for each in (first, second):
                with pytest.raises(BackendCrashed):
                    await each.answer()

    run_loop(body())


@each_loop
@pytest.mark.parametrize("how", ["die", "exit"])
def test_a_death_in_the_second_does_not_take_back_the_answer_of_the_first(
    run_loop: Runner, tmp_path: Path, how: str
) -> None:
    async def body() -> None:
        async with Started("told") as backend:
            first, second = Told(backend, tmp_path, "1"), Told(backend, tmp_path, "2")
            await first.begins()
            await first.then("answer")
            await second.begins()
            if how == "die":  # nothing that is still to be written survives that
                await first.running
            await second.then(how)
            with pytest.raises(BackendCrashed):
                await second.answer()
            assert await first.answer() == [b'"answer"']

    run_loop(body())


@each_loop
def test_if_the_first_hangs_the_process_is_killed_and_the_second_is_lost(
    run_loop: Runner, tmp_path: Path
) -> None:
    async def body() -> None:
        async with Started("told") as backend:
            first, second = Told(backend, tmp_path, "1"), Told(backend, tmp_path, "2")
            await first.begins()
            pid = backend.pid
            assert pid is not None
            first.running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first.answer()
            with pytest.raises(BackendUnavailable, match="must be started anew"):
                await backend.run(batch("next"))
            await backend.close()
            assert is_gone(pid)
            with pytest.raises(BackendCrashed):
                await second.answer()

    run_loop(body())


def test_a_function_may_use_the_memory_of_its_outputs_again() -> None:
    async def body() -> None:
        async with Started("memory_used_again") as backend:
            many = [(outputs(backend, 2 * n), outputs(backend, 2 * n + 1)) for n in range(50)]
            found = [list(await asyncio.gather(*two)) for two in many]
            assert found == [[[[2 * n]], [[2 * n + 1]]] for n in range(50)]

    asyncio.run(body())


def test_async_functions_may_have_two_in_hand() -> None:
    async def body() -> None:
        async with Started("async_upper") as backend:
            for _ in range(20):
                found = await asyncio.gather(outputs(backend, "a"), outputs(backend, "b"))
                assert list(found) == [["A"], ["B"]]

    asyncio.run(body())


@each_loop
def test_with_a_killed_process_nobody_is_failed_and_what_had_not_begun_has_had_no_attempt(
    run_loop: Runner, tmp_path: Path
) -> None:
    """The batcher, its loop and its slot are those of a server at its defaults."""

    async def body() -> None:
        loop, replies, both = asyncio.get_running_loop(), list[Reply](), asyncio.Event()

        def deliver(some: Sequence[Reply]) -> None:
            replies.extend(some)
            if len(replies) == 2:
                both.set()

        # A test may be slow, so a batch has a minute.
        batcher = Batcher(BatchingRules(model="m", max_batch=1, ahead=True, processing=60.0))
        ready = asyncio.Event()
        pump = Pump(batcher, deliver, Observer(), loop, loop.time)
        backend = ProcessBackend(f"{FUNCTIONS}:told", name="m/0")
        slot = Slot(
            WorkerId("m/0"), backend, pump, loop.time, processing_limit=60.0, first_batch_limit=60.0,
            start_limit=60.0, health_interval=60.0, on_started=lambda worker, error: ready.set(), warm=True,
        )  # fmt: skip
        slot_runs = asyncio.create_task(slot.run())
        await ready.wait()
        # So the first batch is expected to end soon, and the second goes ahead at once.
        batcher.worker_warmed(slot.worker, WarmUp((Rung(1, 0.001, (0.001,)),)), loop.time())
        both_pipes = [Pipes(tmp_path, name) for name in "12"]
        requests = []
        for name, pipes in zip("12", both_pipes, strict=True):
            now = loop.time()
            requests.append(Queued(name, "m", msgspec.json.encode(pipes.given), now, now + 60.0, now + 60.0))
            pump.offer(requests[-1])
        await both_pipes[0].begins()
        assert batcher.fleet.workers[slot.worker].ahead is not None
        await both_pipes[0].then("die")
        await asyncio.gather(*(pipes.answers() for pipes in both_pipes))
        await both.wait()
        assert {reply.output for reply in replies} == {b'"answer"'}
        assert [request.executions for request in requests] == [1, 0]
        slot_runs.cancel()
        await asyncio.wait([slot_runs])
        pump.close()

    run_loop(body())
