"""The queues of a dispatcher: each is emptied by one task, in order, and on a long way each mailbox has its own."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.cluster.dispatch import Dispatcher
from penstock.testing import run_virtual
from penstock.types import Failure


class OneAtATime:
    """A post that takes its time, and notes how many sendings there were at once."""

    apart = False

    def __init__(self) -> None:
        self.at_once, self.most, self.sent = 0, 0, list[str]()

    async def send_all(self, messages: Sequence[tuple[str, bytes]]) -> list[bool]:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(0.2)
        self.sent += [box for box, _ in messages]
        self.at_once -= 1
        return [True] * len(messages)


def test_what_comes_just_when_all_was_sent_is_sent_once_and_in_order(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def body() -> None:
        post: Any = OneAtATime()
        endings: Any = None
        dispatcher = Dispatcher(post, endings, "me", asyncio.get_running_loop().time)
        running = asyncio.create_task(dispatcher.run())
        await asyncio.sleep(0.1)
        boxes = [f"box {number}" for number in range(3)]
        for box in boxes:
            dispatcher.refuse(box, ["key"], Failure("CODE", "words"))
            await dispatcher.flush()
        await asyncio.sleep(1.0)
        assert (post.sent, post.most) == (boxes, 1)
        running.cancel()
        await asyncio.wait([running])

    run_virtual(body())
    assert not caplog.records


class Held(OneAtATime):
    """A post that is stuck with one mailbox until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.apart, self.let_go = False, asyncio.Event()

    async def send_all(self, messages: Sequence[tuple[str, bytes]]) -> list[bool]:
        if "stuck" in [box for box, _ in messages]:
            await self.let_go.wait()
        return await super().send_all(messages)


@pytest.mark.parametrize("apart", [True, False])
def test_where_mailboxes_are_apart_a_message_that_is_stuck_holds_up_no_other_mailbox(*, apart: bool) -> None:
    async def body() -> None:
        post: Any = Held()
        endings: Any = None
        dispatcher = Dispatcher(post, endings, "me", asyncio.get_running_loop().time)
        running = asyncio.create_task(dispatcher.run())
        await asyncio.sleep(0.1)
        post.apart = apart
        for box in ("stuck", "free"):
            dispatcher.refuse(box, ["key"], Failure("CODE", "words"))
        await asyncio.sleep(1.0)
        assert post.sent == (["free"] if apart else [])
        post.apart = not apart  # the way has become longer, or shorter: what waits goes before what comes
        for box in ("stuck", "free"):
            dispatcher.refuse(box, ["key"], Failure("CODE", "words"))
        await asyncio.sleep(1.0)
        assert "stuck" not in post.sent
        post.let_go.set()
        await dispatcher.flush()
        assert sorted(post.sent) == ["free", "free", "stuck", "stuck"]
        running.cancel()
        await asyncio.wait([running])

    run_virtual(body())
