"""The bookkeeping of a `map`: which inputs were handed out, what came back, and what is ready for the caller,
in the order of the inputs or as it comes. `async_map.py` and `sync_map.py` each keep one. Pure.

It bounds what is kept: no more than AHEAD × concurrency inputs are handed out before the caller has taken their
answers.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from penstock.client.answer import Answer
from penstock.client.errors import InferenceError

I = TypeVar("I")  # noqa: E741 - the type of the inputs
T = TypeVar("T")

AHEAD = 4  # so many inputs are handed out for each that may be under way


@dataclass(frozen=True, slots=True)
class Done(Generic[I, T]):
    """An input that has its output."""

    index: int  # the first input is 0
    input: I
    answer: Answer[T]
    seconds: float  # from the first try to the answer

    @property
    def output(self) -> T:
        return self.answer.output


@dataclass(frozen=True, slots=True)
class NotDone(Generic[I]):
    """An input that has no output, and why."""

    index: int
    input: I
    error: InferenceError
    seconds: float


Ended = Done[I, T] | NotDone[I]


class SomeFailed(Exception):
    """Some inputs of a `map` have no output."""

    def __init__(self, failures: list[NotDone[Any]], of: int) -> None:
        first = failures[0]
        super().__init__(
            f"{len(failures)} of {of} inputs failed; the first is input {first.index}: {first.error}"
        )
        self.failures = failures


class Course(Generic[I, T]):
    """The inputs of one `map`, and how far each has come."""

    def __init__(
        self, concurrency: int, *, ordered: bool, on_failure: Callable[[NotDone[I]], None] | None = None
    ) -> None:
        """`concurrency`: how many inputs may be under way. `on_failure`: called with each failure; without it,
        failures are kept in `failures`."""
        if concurrency < 1:
            raise ValueError("concurrency must be at least 1")
        self._ahead = AHEAD * concurrency
        self._ordered = ordered
        self._held: dict[int, Ended[I, T]] = {}  # inputs that have ended before one that comes before them
        self._next = 0  # the first input that has not ended, if the answers are ordered
        self._ready: deque[Done[I, T]] = deque()  # answers that the caller may take
        self.handed = 0  # how many inputs were handed out
        self.taken = 0  # how many inputs are finished with: their answers were taken, or they failed
        self.done = 0  # how many inputs have an answer
        self.failed = 0
        self.failures: list[NotDone[I]] = []
        self._on_failure = on_failure or self.failures.append
        self.exhausted = False  # whether there are no more inputs

    @property
    def wants(self) -> int:
        """How many more inputs to hand out."""
        return 0 if self.exhausted else self._ahead - (self.handed - self.taken)

    @property
    def is_over(self) -> bool:
        """Whether the caller has been given all there is."""
        return self.exhausted and self.taken == self.handed

    @property
    def has_ready(self) -> bool:
        return bool(self._ready)

    def hand_out(self) -> int:
        """Returns the index of the next input."""
        index, self.handed = self.handed, self.handed + 1
        return index

    def came(self, ended: Ended[I, T]) -> None:
        """Notes that an input has ended."""
        if not self._ordered:
            self._pass(ended)
            return
        self._held[ended.index] = ended
        while (following := self._held.pop(self._next, None)) is not None:
            self._next += 1
            self._pass(following)

    def take(self) -> Done[I, T]:
        """Returns the next answer for the caller. There must be one."""
        self.taken += 1
        return self._ready.popleft()

    def _pass(self, ended: Ended[I, T]) -> None:
        if isinstance(ended, Done):
            self.done += 1
            self._ready.append(ended)
        else:
            self.taken += 1
            self.failed += 1
            self._on_failure(ended)

    def check(self) -> None:
        """Raises SomeFailed if inputs have failed."""
        if self.failures:
            raise SomeFailed(list(self.failures), self.handed)
