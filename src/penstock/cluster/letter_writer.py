"""Writes a batcher's dead letters into the records of the installation. It is an observer of the batcher, told of
requests that were given up. A loop of its own writes the letters, so that no batch waits for that; how many bytes
may wait to be written is bounded."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence

from penstock.core.dead_letters import is_dead, letter_of, within
from penstock.errors import PenstockError
from penstock.ports import Clock, RequestObserver
from penstock.ports.records import Letters
from penstock.runtime.dead_letter_words import say_dropped, say_so
from penstock.types import DeadLetter, GivenUp

log = logging.getLogger("penstock.batcher")

UNWRITTEN_BYTES = 16 * 2**20  # bytes of the letters that wait for the records
AGAIN = 0.5  # seconds until the next try, if the records are away


class LetterWriter(RequestObserver):
    def __init__(
        self, letters: Letters, attempts: int, clock: Clock, wall_clock: Callable[[], float]
    ) -> None:
        """`attempts`: the number after which a request is given up. `run` must be running."""
        self._letters = letters
        self._attempts = attempts
        self._clock, self._wall_clock = clock, wall_clock
        self._unwritten: list[DeadLetter] = []  # letters that wait to be written
        self._somebody_died = asyncio.Event()  # set when there are such letters
        self.added: Counter[str] = Counter()  # letters since the start, by model
        self.dropped = 0  # letters since the start that were lost before they were written

    def given_up(self, replies: Sequence[GivenUp], now: float) -> None:
        ahead = self._wall_clock() - self._clock()
        dead = [letter_of(reply, ahead) for reply in replies if is_dead(reply, self._attempts)]
        if dead:
            self.added.update(letter.model for letter in dead)
            self._unwritten = within(UNWRITTEN_BYTES, self._unwritten + dead)
            self._somebody_died.set()

    async def run(self) -> None:
        """Write the letters until cancelled. While the records are away, they wait."""
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
                log.warning("dead letters wait", extra={"letters": len(dead), "error": error.message})
                await asyncio.sleep(AGAIN)
