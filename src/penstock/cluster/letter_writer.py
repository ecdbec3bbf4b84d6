"""A batcher's dead letters on their way to Redis."""

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence

from penstock.adapters.redis.records.dead_letters import DeadLetters
from penstock.errors import PenstockError
from penstock.ports import Clock, RequestObserver
from penstock.roles.dead_letters import is_dead, letter_of, say_dropped, say_so, within
from penstock.types import DeadLetter, GivenUp

log = logging.getLogger("penstock.batcher")

UNWRITTEN_BYTES = 16 * 2**20  # of letters that wait for Redis
AGAIN = 0.5  # seconds until the next try, if Redis is away


class LetterWriter(RequestObserver):
    def __init__(self, letters: DeadLetters, attempts: int, clock: Clock) -> None:
        """`run` must be running."""
        self._letters, self._attempts, self._clock = letters, attempts, clock
        self._unwritten: list[DeadLetter] = []
        self._somebody_died = asyncio.Event()
        self.added: Counter[str] = Counter()  # by model, since the start
        self.dropped = 0  # before their time, since the start

    def given_up(self, replies: Sequence[GivenUp], now: float) -> None:
        dead = [letter_of(reply, self._clock) for reply in replies if is_dead(reply, self._attempts)]
        if dead:
            self.added.update(letter.model for letter in dead)
            self._unwritten = within(UNWRITTEN_BYTES, self._unwritten + dead)
            self._somebody_died.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._somebody_died.wait()
            self._somebody_died.clear()
            dead, self._unwritten = self._unwritten, []
            try:
                dropped = await self._letters.add(dead)
                say_so(dead)
                if dropped:
                    self.dropped += dropped
                    say_dropped(dropped)
            except BaseException as error:
                self._unwritten = within(UNWRITTEN_BYTES, dead + self._unwritten)
                self._somebody_died.set()
                if not isinstance(error, PenstockError):
                    raise
                log.warning(
                    "dead letters wait for Redis", extra={"letters": len(dead), "error": error.message}
                )
                await asyncio.sleep(AGAIN)
