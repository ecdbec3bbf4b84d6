"""What is cancelled while nobody wanted it to end goes on, or begins again."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from town import Town, right_answer

from penstock.cluster.dispatch import Dispatcher
from penstock.loops import Loops, for_ever
from penstock.ports.tasks import TaskRecord
from penstock.testing import Recorder, run_virtual
from penstock.types import Ask, Failure


class CutShort:
    """A post whose first sending is cancelled."""

    apart = False

    def __init__(self) -> None:
        self.tries, self.sent = 0, list[str]()

    async def send_all(self, messages: Sequence[tuple[str, bytes]]) -> list[bool]:
        self.tries += 1
        if self.tries == 1:
            raise asyncio.CancelledError
        self.sent += [box for box, _ in messages]
        return [True] * len(messages)


def test_a_sending_that_was_cut_short_is_taken_up_again() -> None:
    async def body() -> None:
        post: Any = CutShort()
        endings: Any = None
        dispatcher = Dispatcher(post, endings, "me", asyncio.get_running_loop().time)
        running = asyncio.create_task(dispatcher.run())
        await asyncio.sleep(0.1)
        dispatcher.refuse("one", ["key"], Failure("CODE", "first"))
        await asyncio.sleep(0.1)
        dispatcher.refuse("another", ["key"], Failure("CODE", "second"))
        await dispatcher.flush()
        assert post.sent == ["one", "another"]
        running.cancel()
        await asyncio.wait([running])

    run_virtual(body())


def test_a_part_of_a_larger_loop_that_was_cancelled_begins_again() -> None:
    parts: list[asyncio.Task[None] | None] = []

    async def part() -> None:
        parts.append(asyncio.current_task())
        await for_ever()

    async def larger() -> None:
        async with Loops() as loops:
            loops.keep("a part", part)

    async def body() -> None:
        loops = Loops(asyncio.get_running_loop().time)
        loops.keep("the larger one", larger)
        await asyncio.sleep(1.0)
        [first] = parts
        assert first is not None
        first.cancel()
        await asyncio.sleep(1.0)
        assert len(parts) == 2
        assert loops.restarts["the larger one: a part"] == 1
        await loops.close()

    run_virtual(body())


def test_who_waits_for_a_key_is_told_although_a_look_at_its_record_was_cut_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def body() -> None:
        town = Town()
        gateway = await town.add_gateway()
        await town.add_batcher()
        await town.add_worker()
        await town.settle_down()
        tasks = gateway._task_desk.tasks
        wait, looks = tasks.wait, 0

        async def cut_short(task_id: str, tenant: str, seconds: float) -> TaskRecord:
            nonlocal looks
            looks += 1
            if looks == 1:
                raise asyncio.CancelledError
            return await wait(task_id, tenant, seconds)

        monkeypatch.setattr(tasks, "wait", cut_short)
        asker = Recorder()
        gateway.gateway.submit_keyed(Ask(b'"7"', "double"), "key", asker)
        assert (await asker.answer).output == right_answer(7)
        assert town.executions() == [b'"7"']
        await town.stop()

    run_virtual(body())
