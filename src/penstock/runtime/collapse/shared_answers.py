"""The store of answers that all gateways of an installation share, read and written in bulk. A gateway over a bus
runs one; its cache asks for answers and adds answers here (`flights`, `recall`).

One question to the store is under way at a time, with everything that was asked meanwhile: the slower the store,
the larger the questions. Nobody waits long: a store that fails, or takes longer than `PATIENCE`, is left alone for
a while, and everything is executed as if there were no store. A store that hardly ever has an answer is also left
alone, for longer and longer. Now and then it is asked for a moment, to see whether that has changed.

Each gateway bounds what it writes within any `ttl` by `max_entries` and `max_bytes`. So no more than that of each
gateway can lie in the store.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Generic, Protocol, TypeVar

from penstock.errors import StoreDown
from penstock.loops import Loops
from penstock.ports import Clock
from penstock.ports.records import AnswerStore

log = logging.getLogger("penstock.cache")

PATIENCE = 0.05  # seconds that a lookup may take
WRITING = 1.0  # seconds that a write may take: nobody waits for it
REST = 1.0  # seconds without the store, once it has failed
GATHER = 0.005  # seconds between two writes
LOOK = 0.25  # seconds: asking must go on so long before it is called in vain
# Asking was in vain if less than this part of the lookups found an answer, of at least so many.
IN_VAIN, ENOUGH = 0.01, 500
FIRST_PAUSE, LONGEST_PAUSE = 4.0, 32.0  # seconds without asking when it was in vain; doubled each time
# Answers in one question or one write. So many hold up Redis for a fraction of a millisecond.
MOST_AT_ONCE = 512
MOST_UNSENT = 16  # times MOST_AT_ONCE: beyond it, answers that are to be written are dropped

T = TypeVar("T")
Asked = TypeVar("Asked")  # whoever asked for an answer
Told = TypeVar("Told", contravariant=True)
Lookup = tuple[Asked, bytes | None]  # the asker, and what was found for it


class OnLookedUp(Protocol[Told]):
    def __call__(self, lookups: Sequence[Lookup[Told]], *, bypassed: bool) -> None: ...


class Allowance:
    """How much may still be written: half of a limit at once, and the other half spread over the time (`ttl`) for
    which it is kept."""

    __slots__ = ("_left", "_most", "_since")

    def __init__(self, limit: float, now: float) -> None:
        self._most = self._left = limit / 2
        self._since = now

    def has(self, amount: float, ttl: float, now: float) -> bool:
        """Whether so much may be written now."""
        self._left = min(self._most, self._left + (now - self._since) * self._most / ttl)
        self._since = now
        return self._left >= amount

    def take(self, amount: float) -> None:
        self._left -= amount


class SharedAnswers(Generic[Asked]):
    def __init__(
        self,
        store: AnswerStore,
        clock: Clock,
        *,
        max_entries: int,
        max_bytes: int,
        has_room: Callable[[], bool],
    ) -> None:
        """`has_room`: says whether the store may be given more now. Nothing happens unless `run` is running."""
        self._store = store
        self._clock = clock
        self._entries, self._bytes = Allowance(max_entries, clock()), Allowance(max_bytes, clock())
        self._has_room = has_room
        # By fingerprint, who asked for an answer that is to be looked up.
        self._wanted: dict[bytes, Asked] = {}
        # By fingerprint, the answers that are to be written, each with the seconds that it is kept.
        self._unsent: dict[bytes, tuple[bytes, float]] = {}
        self._asked = asyncio.Event()  # set while something is in `_wanted`
        self._told = asyncio.Event()  # set while something is in `_unsent`
        self._resting_until = 0.0  # until when the store is left alone
        self._looking_since = 0.0  # since when it is counted whether asking is in vain
        self._lookups = self._found = 0  # questions and finds since `_looking_since`
        self._pause = FIRST_PAUSE  # seconds of the next pause, if asking is in vain
        self.on_looked_up: OnLookedUp[Asked] | None = None  # `Flights` sets this

    @property
    def resting(self) -> bool:
        """Whether the store is left alone now."""
        return self._clock() < self._resting_until

    # ---- calls that never wait ---------------------------------------------------------------------------

    def look_up(self, fingerprint: bytes, asked_by: Asked) -> None:
        """Ask for an answer; `on_looked_up` is called with what was found. Do not call this while `resting`."""
        self._wanted[fingerprint] = asked_by
        self._asked.set()

    def keep(self, fingerprint: bytes, value: bytes, ttl: float) -> None:
        """Write an answer soon, for other gateways to find, if there is room."""
        now = self._clock()
        if self.resting or len(self._unsent) >= MOST_UNSENT * MOST_AT_ONCE or not self._has_room():
            return
        if self._entries.has(1, ttl, now) and self._bytes.has(len(value), ttl, now):
            self._entries.take(1)
            self._bytes.take(len(value))
            self._unsent[fingerprint] = value, ttl
            self._told.set()

    # ---- the loops ---------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Ask and write until cancelled."""
        async with Loops() as loops:
            loops.keep("looking up", self._look_up_all)
            loops.keep("writing", self._write_all)

    async def _look_up_all(self) -> None:
        while True:
            await self._asked.wait()
            asked = _first(self._wanted)
            if not self._wanted:
                self._asked.clear()
            try:
                found = await self._fetch([fingerprint for fingerprint, _ in asked])
            except BaseException:
                # What was asked goes first with the next question, since somebody waits for each answer.
                self._wanted = {**dict(asked), **self._wanted}
                self._asked.set()
                raise
            values = found or [None] * len(asked)
            self._weigh(values)
            assert self.on_looked_up is not None
            lookups = [(who, value) for (_, who), value in zip(asked, values, strict=True)]
            self.on_looked_up(lookups, bypassed=found is None)

    async def _fetch(self, fingerprints: Sequence[bytes]) -> Sequence[bytes | None] | None:
        """Ask the store. Returns None if it was not asked, or gave no answer in time."""
        if self.resting:
            return None
        try:
            async with asyncio.timeout(PATIENCE):
                return await self._store.fetch(fingerprints)
        except (StoreDown, OSError, TimeoutError) as error:
            self._rest(error)
            return None

    def _weigh(self, values: Sequence[bytes | None]) -> None:
        """Note what was found, and pause if asking is in vain."""
        now = self._clock()
        self._lookups += len(values)
        self._found += len(values) - values.count(None)
        if self._lookups < ENOUGH or now - self._looking_since < LOOK:
            return
        if self._found < IN_VAIN * self._lookups:
            self._resting_until = now = max(self._resting_until, now + self._pause)
            self._pause = min(LONGEST_PAUSE, 2 * self._pause)
        else:
            self._pause = FIRST_PAUSE
        self._looking_since = now
        self._lookups = self._found = 0

    async def _write_all(self) -> None:
        while True:
            await self._told.wait()
            told = _first(self._unsent)
            if not self._unsent:
                self._told.clear()
            if not self.resting:
                try:
                    async with asyncio.timeout(WRITING):
                        await self._store.keep(
                            [(fingerprint, value, ttl) for fingerprint, (value, ttl) in told]
                        )
                except (StoreDown, OSError, TimeoutError) as error:
                    self._rest(error)
            await asyncio.sleep(GATHER)

    def _rest(self, error: Exception) -> None:
        """Leave the store alone for a while. The metrics show this, so there is no line in the log at the usual
        level."""
        self._resting_until = self._clock() + REST
        log.debug("the cache's store is left alone", extra={"error": f"{type(error).__name__}: {error}"})


def _first(waiting: dict[bytes, T]) -> list[tuple[bytes, T]]:
    """Take out the items that have waited longest, at most `MOST_AT_ONCE`."""
    taken = list(islice(waiting.items(), MOST_AT_ONCE))
    for fingerprint, _ in taken:
        del waiting[fingerprint]
    return taken
