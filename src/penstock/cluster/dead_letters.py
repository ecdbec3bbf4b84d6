"""Dead letters of an installation, as the admin plane shows them."""

from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Any

from penstock.cluster.tasks import TaskDesk
from penstock.ports import Clock
from penstock.ports.records import Letters
from penstock.runtime.dead_letter_words import described, in_full
from penstock.types import Accepted


class DeadLetters:
    """The dead letters of an installation, listed, retried and removed. `longest`: seconds that a retried letter
    may take."""

    def __init__(self, letters: Letters, desk: TaskDesk, longest: float, clock: Clock) -> None:
        self._letters = letters
        self._desk = desk
        self._limit = longest
        self._clock = clock

    async def list(self, limit: int, before: str | None) -> Sequence[Mapping[str, Any]]:
        return [described(letter) for letter in await self._letters.list(limit, before)]

    async def show(self, letter_id: str) -> Mapping[str, Any]:
        return in_full(await self._letters.show(letter_id))

    async def retry(self, letter_id: str) -> str:
        letter = await self._letters.show(letter_id)
        now = self._clock()
        request = Accepted(
            f"retry-{token_hex(16)}", letter.model, letter.input, now, now + self._limit, now + self._limit,
            letter.request_id, letter.parameters, letter.tenant, letter.tier, letter.cost, len(letter.input),
            task=True,
        )  # fmt: skip
        # The record of how it ended the first time makes room.
        await self._desk.tasks.forget(letter.request_id, letter.tenant)
        await self._desk.take(request)
        await self._letters.remove(letter_id)
        return letter.request_id

    async def remove(self, letter_id: str) -> None:
        await self._letters.remove(letter_id)

    async def purge(self) -> int:
        return await self._letters.purge()
