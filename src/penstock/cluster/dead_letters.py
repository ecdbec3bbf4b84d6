"""Dead letters of an installation, as operators see them. The admin plane of a gateway lists, shows, retries and
deletes them through its one `DeadLetters`.

A letter is retried as a task under its own request id. It is removed only once that task is accepted, so that it
cannot be lost between the two. If it then cannot be removed, the task's record says for which letter it was made:
as long as that record is kept, a second retry is refused. Batchers write the letters (`letter_writer`).
"""

import logging
from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Any

from penstock.cluster.tasks import TaskDesk
from penstock.errors import Conflict, NotFound, StoreDown
from penstock.ports import Clock
from penstock.ports.records import Letters
from penstock.runtime.dead_letter_words import described, in_full
from penstock.types import Accepted

log = logging.getLogger("penstock.dead_letters")


class DeadLetters:
    """The dead letters of an installation, listed, retried and removed. `longest`: seconds that a retried letter
    may take."""

    def __init__(self, letters: Letters, desk: TaskDesk, longest: float, clock: Clock) -> None:
        self._letters = letters
        self._desk = desk
        self.longest = longest
        self._clock = clock

    async def list(self, limit: int, before: str | None) -> Sequence[Mapping[str, Any]]:
        return [described(letter) for letter in await self._letters.list(limit, before)]

    async def show(self, letter_id: str) -> Mapping[str, Any]:
        return in_full(await self._letters.show(letter_id))

    async def retry(self, letter_id: str) -> str:
        letter = await self._letters.show(letter_id)
        now = self._clock()
        # The request may wait in the queue until its deadline.
        request = Accepted(
            f"retry-{token_hex(16)}", letter.model, letter.input, now, now + self.longest, now + self.longest,
            letter.request_id, letter.parameters, letter.tenant, letter.tier, letter.cost, len(letter.input),
            task=True,
        )  # fmt: skip
        try:
            await self._desk.retry(request, letter_id)
        except Conflict as error:
            raise Conflict(
                f"the task {letter.request_id!r} is not over, or this letter has been retried already"
            ) from error
        try:
            await self._letters.remove(letter_id)
        except (NotFound, StoreDown) as error:  # gone already; or it stays, and the task's record guards it
            log.warning("a dead letter that is retried was not removed", extra={"error": error.message})
        return letter.request_id

    async def remove(self, letter_id: str) -> None:
        await self._letters.remove(letter_id)

    async def purge(self) -> int:
        return await self._letters.purge()
