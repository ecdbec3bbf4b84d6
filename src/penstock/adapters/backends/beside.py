"""What a function's process does beside the function: it reads the next batch, and writes the answers to the last.

    reading   │ batch 2 │            │ batch 3 │
    function  ── batch 1 ──┤── batch 2 ──┤── batch 3 ──
    writing                │ answers 1 │  │ answers 2 │

Both wait for the interpreter's lock. A function that computes in a library (PyTorch, NumPy) lets it go, and so does
not notice. One that never lets go would keep its callers waiting for answers that are ready, so answers are then
written before the next batch begins.

Used by `child`. What a user's objects do when they are encoded is the user's code, which runs in the main thread
only; see `plain`.
"""

import sys
import threading
from collections.abc import Callable
from itertools import chain
from queue import SimpleQueue
from typing import Any

Write = Callable[[], None]

GREEDY = 0.002  # seconds; a shorter batch may well be over before a thread has come to write anything
FIRST_REST, LONGEST_REST = 16, 1024  # batches whose answers are not written beside, after one whose were late
SWITCH = 0.0005  # seconds for which a function may keep the lock while answers are to be written
PLAIN = frozenset((str, bytes, int, float, bool, type(None)))


class Writer:
    """Writes answers in a thread of its own, one after the other."""

    def __init__(self) -> None:
        self._todo: SimpleQueue[Write] = SimpleQueue()
        self._free = threading.Event()
        self._free.set()
        self._began = False  # whether the thread has come to the last answers
        self._unjudged = False  # whether it is not known yet if it came to them in time
        self._rest, self._resting = FIRST_REST, 0
        self._usual = sys.getswitchinterval()
        self._thread: threading.Thread | None = None

    @property
    def worth_it(self) -> bool:
        """Whether the next answers should be written beside the function."""
        self._resting -= self._resting > 0
        return not self._resting

    def write(self, write: Write) -> None:
        """Write answers while the caller goes on."""
        self.wait()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="penstock-writer", daemon=True)
            self._thread.start()
        self._free.clear()
        self._began, self._unjudged = False, True
        self._usual = sys.getswitchinterval()
        sys.setswitchinterval(min(SWITCH, self._usual))
        self._todo.put(write)

    def ran(self, seconds: float) -> None:
        """The function has run for so long since `write`."""
        if self._unjudged and (self._began or seconds > GREEDY):
            self._unjudged = False
            if self._began:
                self._rest = FIRST_REST
            else:
                self._resting, self._rest = self._rest, min(LONGEST_REST, 2 * self._rest)

    def wait(self) -> None:
        """Wait until all is written."""
        self._free.wait()

    def _work(self) -> None:
        while True:
            write = self._todo.get()
            self._began = True
            try:
                write()
            finally:
                sys.setswitchinterval(self._usual)
                self._free.set()
            del write  # so that a waiting process holds nobody's answer


def plain(outputs: Any) -> Any:
    """A copy of what a function has returned, which it cannot change any more, and which can be encoded without
    running anybody's code. None if that is not certain."""
    kind = type(outputs)
    if kind is list or kind is tuple:
        return _plain_list(outputs)
    if kind.__name__ == "ndarray" and kind.__module__ == "numpy" and outputs.dtype.kind in "biuf":
        return outputs.copy()
    if kind.__name__ == "Tensor" and kind.__module__ == "torch":
        rows = outputs.tolist()  # on the GPU, only the main thread may know of it
        return rows if isinstance(rows, list) else None
    return None


def _plain_list(outputs: Any) -> list[Any] | None:
    # These are few loops within the interpreter: the next batch waits for them.
    kinds = set(map(type, outputs))
    if kinds <= PLAIN:
        return list(outputs)
    if kinds == {list} and PLAIN.issuperset(map(type, chain.from_iterable(outputs))):
        return list(map(list.copy, outputs))
    if kinds == {dict} and PLAIN.issuperset(map(type, chain.from_iterable(map(dict.values, outputs)))):
        return list(map(dict.copy, outputs))
    return None
