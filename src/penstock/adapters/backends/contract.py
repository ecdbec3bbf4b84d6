"""A user's function as its process calls it (`child.py`): what it is given, and what the server is told of the
outcome: outputs, or in which way it broke its contract, or the error that it raised."""

import inspect
import math
import resource
import time
import traceback
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path
from typing import Any

from penstock.adapters.backends.foreign_text import describe, named, utf8, without_quotes
from penstock.adapters.backends.frames import (
    BadFrame,
    Done,
    Look,
    Rejected,
    Seen,
    Setup,
    Work,
    pack,
)
from penstock.adapters.backends.loading import CannotLoad, Loaded, trace_of, why_not
from penstock.adapters.backends.out_of_memory import is_out_of_memory
from penstock.adapters.backends.outputs import ContractBroken, Encoded, Outputs
from penstock.adapters.backends.pressure import Pressure
from penstock.adapters.backends.reading import Inputs, Reading
from penstock.adapters.backends.signature import Calling, Unfit

# So many tracebacks are logged, one for each line of code: a stream of bad inputs must not flood the log.
TRACEBACKS = 32
HERE = Path(__file__).parent


class Contract:
    """The user's function, and the frames that tell the server what came of calling it."""

    def __init__(self, loaded: Loaded, setup: Setup) -> None:
        try:
            self._calling = Calling(loaded.function, per_item=setup.per_item)
        except Unfit as why:
            raise CannotLoad(f"{loaded.where} {why}") from None
        self.name = utf8(loaded.name)
        self._loaded = loaded
        self.read = Inputs(self.name, setup.input_kind, per_item=setup.per_item).read
        self._outputs = Outputs(self.name, setup.output_kind)
        self._logged: set[tuple[type, str, int]] = set()  # kind of error, file and line
        self._pressure = Pressure(loaded.pressure, setup.memory_limit)
        self._memory_left = memory_left()  # bytes, when the function is loaded and nothing has run

    @property
    def parameters(self) -> list[str] | None:
        return self._calling.names

    @property
    def closes(self) -> bool:
        return self._loaded.close is not None

    @property
    def is_async(self) -> bool:
        loaded = self._loaded
        parts = (
            loaded.function, type(loaded.function).__call__, loaded.setup, loaded.close, loaded.warm_up
        )  # fmt: skip
        return any(map(inspect.iscoroutinefunction, parts))

    def begin(self) -> Any:
        """Calls the user's `setup`; what it returns may have to be awaited."""
        return None if self._loaded.setup is None else self._loaded.setup()

    def end(self) -> Any:
        """Calls the user's `close`; what it returns may have to be awaited."""
        return None if self._loaded.close is None else self._loaded.close()

    def not_set_up(self, target: str, error: BaseException) -> CannotLoad:
        file = target.rpartition(":")[0]
        return CannotLoad(why_not(f"setup of {self._loaded.where} failed", file, error), trace_of(error))

    def warm_up(self) -> Any:
        """Calls the user's `warmup`, which makes inputs; what it returns may have to be awaited."""
        return None if self._loaded.warm_up is None else self._loaded.warm_up()

    def warm_up_failed(self, target: str, error: BaseException) -> CannotLoad:
        file = target.rpartition(":")[0]
        return CannotLoad(why_not(f"warmup of {self._loaded.where} failed", file, error), trace_of(error))

    def call(self, reading: Reading) -> Any:
        """Calls the function, unless no input can be read; what it returns may have to be awaited."""
        if reading.unread and not reading.inputs:
            return []
        return self._calling(reading.inputs, reading.parameters)

    def answer(self, work: Work, reading: Reading, outputs: Any) -> bytearray:
        """Returns the frame with the outputs of a batch. Raises ContractBroken."""
        encoded, failed = self._encoded(reading, outputs)
        return self._done(work, encoded, failed, self._pressure.after_batch(), time.monotonic())

    def answer_later(self, work: Work, reading: Reading, outputs: Any) -> Callable[[], bytearray]:
        """Returns a function that makes the answer, which any thread may call. The user's `pressure()` is called
        now, in this thread."""
        pressure, at = self._pressure.after_batch(), time.monotonic()

        def made() -> bytearray:
            try:
                encoded, failed = self._encoded(reading, outputs)
                return self._done(work, encoded, failed, pressure, at)
            except Exception as error:  # as in the main thread, it is an answer to this batch
                return self.refusal(work, error)

        return made

    def _encoded(self, reading: Reading, outputs: Any) -> Encoded:
        encoded, failed = self._outputs.encode(outputs, len(reading.inputs), reading.binary)
        if reading.unread:
            encoded, failed = reading.among_all(encoded, failed)
        return Encoded(encoded, failed)

    def _done(
        self, work: Work, encoded: list[bytes], failed: list[tuple[int, str, str]], pressure: float, at: float
    ) -> bytearray:
        try:
            return pack(Done(work.id, encoded, pressure, at, failed))
        except BadFrame as error:
            raise ContractBroken(f"{self.name}: {error}") from None

    def seen(self, look: Look) -> bytearray:
        return pack(Seen(look.id, self._pressure.at_rest()))

    def refusal(self, work: Work, error: BaseException) -> bytearray:
        """Returns the frame that says that a batch failed, and why."""
        if isinstance(error, ContractBroken):
            return pack(Rejected(work.id, utf8(str(error))))
        if isinstance(error, Unfit):  # the parameters do not fit, so that trying again would not help
            why = utf8(f"{self.name} {error}")
            count = len(work.inputs)
            failed = [(position, why, "") for position in range(count)]
            return self._done(work, [b""] * count, failed, self._pressure.after_batch(), time.monotonic())
        kind = type(error).__name__
        details = describe(error)
        spent = isinstance(error, MemoryError) and self._memory_is_gone(error)
        rejected = Rejected(work.id, utf8(f"{self.name} raised {kind}"), details, spent)
        rejected.too_large = not spent and is_out_of_memory(error, work.inputs)
        if self._is_new(error):
            quotable = without_quotes(details, [*work.inputs, work.parameters])
            rejected.logged = named(type(error), quotable)
            rejected.trace = where_raised(error)
        return pack(rejected)

    def _memory_is_gone(self, error: MemoryError) -> bool:
        """Returns whether memory has leaked. If one input just asked for too much, all of it is free again."""
        traceback.clear_frames(error.__traceback__)  # lets go of what the function held while it ran
        return memory_left() < self._memory_left / 2

    def _is_new(self, error: BaseException) -> bool:
        """Returns whether no such error raised at this line was logged before."""
        frame, line = list(traceback.walk_tb(error.__traceback__))[-1]
        raised = (type(error), frame.f_code.co_filename, line)
        if raised in self._logged or len(self._logged) >= TRACEBACKS:
            return False
        self._logged.add(raised)
        return True


def where_raised(error: BaseException) -> str:
    """Returns the traceback of an error, without Penstock's own frames above the function's."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = sum(1 for _ in takewhile(lambda frame: Path(frame.filename).parent == HERE, frames))
    return utf8("".join(traceback.format_list(frames[ours:] or frames)).rstrip())


def memory_left() -> float:
    """Returns the bytes until the memory limit of this process; infinite if there is none."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return math.inf
    with Path("/proc/self/statm").open() as file:
        return limit - int(file.read().split()[0]) * resource.getpagesize()
