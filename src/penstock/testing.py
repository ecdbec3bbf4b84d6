"""Doubles for tests, Penstock's and yours: time that jumps, a scripted backend, an asker that keeps its answer. No
module of Penstock imports it.

async def scene() -> None:
    backend = MockBackend([Answer(seconds=30), Answer(error=BatchRejected("no"))])
    ...                                     # thirty seconds pass at once, and exactly

run_virtual(scene())
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from penstock.errors import BackendError, StoreDown
from penstock.types import Batch, Reply, Result, Seconds

T = TypeVar("T")


class VirtualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: Seconds = 0.0) -> None:
        self.now = now

    def __call__(self) -> Seconds:
        return self.now

    def advance(self, seconds: Seconds) -> None:
        self.now += seconds


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time: when nothing is ready, its clock jumps to the next timer.

    Nothing ready and no timer set would be a wait for ever, so that is an error: a lost wake-up fails a test
    instead of hanging it. For the same reason threads cannot wake this loop, and sockets cannot be used on it.
    Times are true to a nanosecond, for the first six weeks.
    """

    def __init__(self, clock: VirtualClock | None = None) -> None:
        self.clock = clock or VirtualClock()
        super().__init__(_Jump(self.clock))

    def time(self) -> Seconds:
        return self.clock()


# Seconds; beyond that a float is too coarse for the nanosecond by which timers are compared.
LONGEST = 2.0**22


class _Jump(selectors.SelectSelector):
    """A selector that moves the clock where a loop would sleep."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready:
            return ready
        if timeout is None:
            raise RuntimeError("everything waits and no timer is set: this would wait for ever")
        if self._clock.now + timeout > LONGEST:  # the clock stays, so that what waits can still be cancelled
            raise RuntimeError("six weeks of virtual time have passed: timers would no longer fire")
        self._clock.advance(timeout)
        return []


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a `MockBackend` does with one batch: after `seconds` it gives the error, the outputs, or the inputs."""

    seconds: Seconds = 0.0  # infinity: the backend hangs
    outputs: tuple[bytes, ...] | None = None  # JSON; None: each input is its own output
    error: BackendError | None = None
    pressure: float = 0.0  # how full the backend says it is


class MockBackend:
    """A `penstock.ports.Backend` that plays a script and remembers what it was asked.

    The script is a list of answers, one a batch (the last one goes on for ever), or a function from a batch
    to its answer. `start_errors` and `probe_errors` are raised in turn, None meaning that all is well; `pressures`
    are what its probes return in turn, and then 0.
    """

    def __init__(
        self,
        script: Iterable[Answer] | Callable[[Batch], Answer] = (),
        *,
        start_errors: Iterable[BackendError | None] = (),
        probe_errors: Iterable[BackendError | None] = (),
        pressures: Iterable[float] = (),
        start_seconds: Seconds = 0.0,
        runs_ahead: bool = False,
    ) -> None:
        self._script = script if callable(script) else _in_turn(script)
        self._start_errors = iter(start_errors)
        self._probe_errors = iter(probe_errors)
        self._pressures = iter(pressures)
        self._start_seconds = start_seconds
        self.batches: list[Batch] = []  # the batches that it has begun, in order
        self.running: Batch | None = None
        self.runs_ahead = runs_ahead  # whether it takes a batch while it runs another
        self.given = 0  # how many batches it was given, those it has not begun included
        self._free = asyncio.Lock()
        self.starts = self.probes = self.closes = 0

    async def start(self) -> None:
        self.starts += 1
        await _pass(self._start_seconds)
        _raise(next(self._start_errors, None))

    async def run(self, batch: Batch) -> Result:
        assert self.running is None or self.runs_ahead, "a backend is given one batch at a time"
        self.given += 1
        async with self._free:
            return await self._run(batch)

    async def _run(self, batch: Batch) -> Result:
        self.batches.append(batch)
        self.running = batch
        try:
            answer = self._script(batch)
            await _pass(answer.seconds)
            _raise(answer.error)
        finally:
            self.running = None
        outputs = answer.outputs
        if outputs is None:
            outputs = tuple(request.input for request in batch.requests)
        return Result(list(outputs), pressure=answer.pressure)

    async def probe(self) -> float:
        self.probes += 1
        _raise(next(self._probe_errors, None))
        return next(self._pressures, 0.0)

    async def close(self) -> None:
        self.closes += 1


class Recorder:
    """A `penstock.ports.Asker` that keeps its answer: `await recorder.answer`."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Reply] = loop.create_future()

    def reply(self, reply: Reply) -> None:
        self.answer.set_result(reply)  # a second answer is an error


class MockAnswerStore:
    """A `penstock.ports.records.AnswerStore` in memory, that can be slow, or away."""

    def __init__(self, clock: Callable[[], Seconds]) -> None:
        self._clock = clock
        self._kept: dict[bytes, tuple[bytes, Seconds]] = {}
        self.seconds = 0.0  # how long each call takes
        self.down = False
        self.fetches: list[int] = []  # how many answers each fetch asked for
        self.writes: list[int] = []  # how many answers each write kept

    async def fetch(self, fingerprints: Sequence[bytes]) -> list[bytes | None]:
        self.fetches.append(len(fingerprints))
        await self._answer()
        found = (self._kept.get(fingerprint) for fingerprint in fingerprints)
        return [each[0] if each is not None and each[1] > self._clock() else None for each in found]

    async def keep(self, answers: Sequence[tuple[bytes, bytes, float]]) -> None:
        self.writes.append(len(answers))
        await self._answer()
        for fingerprint, value, ttl in answers:
            self._kept[fingerprint] = value, self._clock() + ttl

    async def _answer(self) -> None:
        await _pass(self.seconds)
        if self.down:
            raise StoreDown("the store is away, as it was told to be")


def _in_turn(answers: Iterable[Answer]) -> Callable[[Batch], Answer]:
    left = list(answers) or [Answer()]

    def next_answer(batch: Batch) -> Answer:
        return left.pop(0) if len(left) > 1 else left[0]

    return next_answer


async def _pass(seconds: Seconds) -> None:
    if seconds == float("inf"):
        await asyncio.get_running_loop().create_future()
    elif seconds > 0:
        await asyncio.sleep(seconds)


def _raise(error: BackendError | None) -> None:
    if error is not None:
        raise error
