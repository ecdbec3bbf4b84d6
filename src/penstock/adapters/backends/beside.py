"""What a function's process does while the function runs: it reads the next batch, and writes the answers to the
last. `child.py` has one `Writer`, whose thread runs in that process.

    reading   │ batch 2 │            │ batch 3 │
    function  ── batch 1 ──┤── batch 2 ──┤── batch 3 ──
    writing                │ answers 1 │  │ answers 2 │

Reading and writing need the interpreter's lock. A function that computes in a library (PyTorch, NumPy) releases the
lock, and is not held up. A function that never releases it would keep clients waiting for answers that are ready,
so then answers are written before the next batch begins.

To encode a user's objects may run the user's code, which may run in the main thread only. So only outputs of plain
types are written in the other thread; see `plain`.
"""

import sys
import threading
from collections.abc import Callable
from itertools import chain
from queue import SimpleQueue
from typing import Any

Write = Callable[[], None]

GREEDY = 0.002  # seconds; a shorter batch proves nothing: the writer may just not have run yet
# After answers that were late, the answers of so many batches are not written beside the function; twice as many
# after each further time.
FIRST_REST, LONGEST_REST = 16, 1024
SWITCH = 0.0005  # seconds after which a thread must hand over the lock, while answers are to be written
PLAIN = frozenset((str, bytes, int, float, bool, type(None)))


class Writer:
    """Writes answers in a thread of its own, one after the other."""

    def __init__(self) -> None:
        self._todo: SimpleQueue[Write] = SimpleQueue()
        self._free = threading.Event()  # set while the thread has nothing to write
        self._free.set()
        self._began = False  # whether the thread has come to the last answers
        self._unjudged = False  # whether it is not known yet if it came to them in time
        self._rest = FIRST_REST  # how many batches the next rest lasts
        self._resting = 0  # how many batches are left of this rest; 0: answers are written in the thread
        self._usual = sys.getswitchinterval()  # the user's own setting
        self._thread: threading.Thread | None = None

    @property
    def worth_it(self) -> bool:
        """Whether the next answers should be written beside the function."""
        self._resting -= self._resting > 0
        return not self._resting

    def write(self, write: Write) -> None:
        """Write answers in the writer's thread, while the caller goes on."""
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
        """Note for how long the function has run since `write`. If the writer did not get to run meanwhile, its
        answers were late."""
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
    """Returns a copy of a function's outputs, which the function cannot change any more and which can be encoded
    without running the user's code. None if that is not certain."""
    kind = type(outputs)
    if kind is list or kind is tuple:
        return _plain_list(outputs)
    if kind.__name__ == "ndarray" and kind.__module__ == "numpy" and outputs.dtype.kind in "biuf":
        return outputs.copy()
    if kind.__name__ == "Tensor" and kind.__module__ == "torch":
        rows = outputs.tolist()  # only the main thread may use the GPU
        return rows if isinstance(rows, list) else None
    return None


def _plain_list(outputs: Any) -> list[Any] | None:
    # These loops run within the interpreter, because the next batch waits for them.
    kinds = set(map(type, outputs))
    if kinds <= PLAIN:
        return list(outputs)
    if kinds == {list} and PLAIN.issuperset(map(type, chain.from_iterable(outputs))):
        return list(map(list.copy, outputs))
    if kinds == {dict} and PLAIN.issuperset(map(type, chain.from_iterable(map(dict.values, outputs)))):
        return list(map(dict.copy, outputs))
    return None
