"""Dead letters of a batcher, on their way to where all of them are kept. What waits for that is bounded."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence

from penstock.core.dead_letters import is_dead, letter_of, within
from penstock.errors import PenstockError
from penstock.ports import Clock
from penstock.ports.records import Letters
from penstock.runtime.dead_letter_words import say_dropped, say_so
from penstock.types import DeadLetter, Reply

log = logging.getLogger("penstock.batcher")

UNWRITTEN_BYTES = 16 * 2**20  # that wait at most
AGAIN = 0.5  # seconds


class LetterWriter:
    def __init__(
        self, letters: Letters, attempts: int, clock: Clock, wall_clock: Callable[[], float]
    ) -> None:
        """`attempts`: after which a request is given up."""
        self._letters = letters
        self._attempts = attempts
        self._clock, self._wall_clock = clock, wall_clock
        self._unwritten: list[DeadLetter] = []
        self._somebody_died = asyncio.Event()
        self.died: Counter[str] = Counter()  # letters by model, since the start
        self.dropped = 0  # before their time, since the start

    def look_at(self, replies: Sequence[Reply]) -> None:
        """Those of them that are dead letters are written soon."""
        attempts = self._attempts
        dead = [reply for reply in replies if is_dead(reply, attempts)]
        if dead:
            ahead = self._wall_clock() - self._clock()
            letters = [letter_of(reply, ahead) for reply in dead]
            self.died.update(letter.model for letter in letters)
            self._unwritten = within(UNWRITTEN_BYTES, self._unwritten + letters)
            self._somebody_died.set()

    async def run(self) -> None:
        """Until cancelled. While the records are away, the letters wait."""
        while True:
            await self._somebody_died.wait()
            self._somebody_died.clear()
            letters, self._unwritten = self._unwritten, []
            try:
                dropped = await self._letters.add(letters)
                say_so(letters)
                if dropped:
                    self.dropped += dropped
                    say_dropped(dropped)
            except BaseException as error:
                self._unwritten = within(UNWRITTEN_BYTES, letters + self._unwritten)
                self._somebody_died.set()
                if not isinstance(error, PenstockError):
                    raise
                log.warning(
                    "dead letters wait for Redis", extra={"letters": len(letters), "error": error.message}
                )
                await asyncio.sleep(AGAIN)
