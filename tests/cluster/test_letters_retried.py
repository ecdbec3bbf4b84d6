"""A dead letter that is retried is executed once more, whoever asks for it however often."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from town import SECONDS, Town, doubled, right_answer

from penstock.errors import BackendError, Conflict, NotFound, Overloaded, PenstockError, StoreDown
from penstock.testing import Answer, run_virtual
from penstock.types import Accepted, Ask, Batch, TaskStatus

ATTEMPTS = 3


class Dead:
    """A town with one dead letter, of the task `t`. What is executed from now on succeeds."""

    def __init__(self) -> None:
        self.broken = True
        self.town = Town(script=self._run)

    def _run(self, batch: Batch) -> Answer:
        return Answer(SECONDS, error=BackendError("it broke")) if self.broken else doubled(batch)

    async def die(self) -> str:
        """The letter's id."""
        for _ in range(2):
            await self.town.add_gateway()
        await self.town.add_batcher()
        await self.town.add_worker()
        await self.town.settle_down()
        await self.town.gateways[0].gateway.submit_task(Ask(b'"7"', "double", request_id="t"))
        await asyncio.sleep(2.0)
        self.broken = False
        [letter] = await self.town.gateways[0].dead_letters.list(10, None)
        return str(letter["id"])

    async def retry(self, letter: str, gateway: int = 0) -> str:
        return await self.town.gateways[gateway].dead_letters.retry(letter)

    async def status(self) -> TaskStatus:
        return (await self.town.gateways[0].gateway.find_task("t", None)).status

    @property
    def executions(self) -> int:
        return len(self.town.executions()) - ATTEMPTS


def played(scene: Callable[[Dead, str], Awaitable[None]]) -> None:
    async def body() -> None:
        dead = Dead()
        letter = await dead.die()
        await scene(dead, letter)
        await dead.town.stop()

    run_virtual(body())


def test_two_who_retry_a_letter_at_once_have_it_executed_once() -> None:
    async def scene(dead: Dead, letter: str) -> None:
        both = await asyncio.gather(dead.retry(letter), dead.retry(letter, 1), return_exceptions=True)
        assert [each for each in both if isinstance(each, str)] == ["t"]
        assert [type(each) for each in both if not isinstance(each, str)] == [Conflict]
        await asyncio.sleep(2.0)
        assert (dead.executions, await dead.status()) == (1, TaskStatus.SUCCESS)

    played(scene)


@pytest.mark.parametrize("seconds", [0.0, 2.0], ids=["while it runs", "when it is over"])
def test_a_letter_that_could_not_be_removed_is_not_executed_again(
    monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    async def scene(dead: Dead, letter: str) -> None:
        async def away(letter_id: str) -> None:
            raise StoreDown("away")

        with monkeypatch.context() as patched:
            patched.setattr(dead.town.records.letters, "remove", away)
            assert await dead.retry(letter) == "t"
        await asyncio.sleep(seconds)
        with pytest.raises(Conflict, match="retried already"):
            await dead.retry(letter)
        await asyncio.sleep(2.0)
        task = await dead.town.gateways[0].gateway.find_task("t", None)
        assert task.answer is not None
        assert (dead.executions, task.answer.output) == (1, right_answer(7))

    played(scene)


def test_a_letter_that_is_retried_and_fails_again_leaves_one_that_can_be_retried() -> None:
    async def scene(dead: Dead, letter: str) -> None:
        dead.broken = True
        await dead.retry(letter)
        await asyncio.sleep(2.0)
        dead.broken = False
        [second] = await dead.town.gateways[0].dead_letters.list(10, None)
        assert second["id"] != letter
        with pytest.raises(NotFound):
            await dead.retry(letter)
        await dead.retry(str(second["id"]))
        await asyncio.sleep(2.0)
        assert await dead.status() is TaskStatus.SUCCESS

    played(scene)


@pytest.mark.parametrize("error", [StoreDown("away"), Overloaded("full")], ids=["away", "full"])
def test_a_retry_that_is_refused_can_be_tried_again(
    monkeypatch: pytest.MonkeyPatch, error: PenstockError
) -> None:
    async def scene(dead: Dead, letter: str) -> None:
        async def refuse(request: Accepted) -> None:
            raise error

        with monkeypatch.context() as patched:
            patched.setattr(dead.town.gateways[0].publisher, "accepted", refuse)
            with pytest.raises(type(error)):
                await dead.retry(letter)
        await dead.retry(letter)
        await asyncio.sleep(2.0)
        assert (dead.executions, await dead.status()) == (1, TaskStatus.SUCCESS)

    played(scene)
