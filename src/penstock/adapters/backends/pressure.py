"""How full the process of a user's function is. `contract.py` measures it in that process, after each batch and
when the server asks. `http_answer.py` uses `as_share` for what an endpoint says.

The highest of three measures counts: the GPU's memory, if the function uses PyTorch; the memory of the process, if
it has a limit; and the user's own `pressure()`, if there is one beside the function. Each is a share, 0 to 1.
"""

import gc
import math
import resource
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

HIGH = 0.8  # share of memory; if the first batch takes more than this, the model is meant to fill it
STATM = Path("/proc/self/statm")


class Pressure:
    """The measures of one process. `say`: the user's own `pressure()`."""

    def __init__(self, say: Callable[[], Any] | None, memory_limit: int | None) -> None:
        self._memories = [Memory(gpu_memory)]
        if memory_limit is not None:
            self._memories.append(Memory(lambda: own_memory() / memory_limit))
        self._say = say
        self._complained = False  # whether the log was told that a measure failed

    def after_batch(self) -> float:
        """Returns the pressure right after a batch. The first batch shows which measures count."""
        return self._guarded(self._after_batch)

    def at_rest(self) -> float:
        """Returns the pressure between batches, when the server asks for it."""
        return self._guarded(self._at_rest)

    def _after_batch(self) -> float:
        for memory in self._memories:
            memory.learn()
        return max(self._memory(), self._said())

    def _at_rest(self) -> float:
        if self._memory() >= HIGH:
            gc.collect()  # an idle process collects no cycles by itself
        return max(self._memory(), self._said())

    def _memory(self) -> float:
        return max(memory.taken() for memory in self._memories)

    def _said(self) -> float:
        return 0.0 if self._say is None else as_share(self._say())

    def _guarded(self, read: Callable[[], float]) -> float:
        """Returns the measure. One that fails counts as 0, and the log is told once: a batch that went well must
        not fail because of it."""
        try:
            return read()
        except Exception:
            if not self._complained:
                self._complained = True
                print("how full it is cannot be told, and counts as 0", file=sys.stderr)
                traceback.print_exc()
            return 0.0


class Memory:
    """One kind of memory. If the first batch nearly fills it, it does not count, because waiting would free
    none."""

    def __init__(self, read: Callable[[], float | None]) -> None:
        self._read = read
        self._counts: bool | None = None  # None until a batch has run

    def learn(self) -> None:
        """Finds out whether this memory counts, after the first batch."""
        if self._counts is None and (level := self._read()) is not None:
            self._counts = level < HIGH

    def taken(self) -> float:
        """Returns the share that is taken; 0 if this memory does not count."""
        return (self._read() or 0.0) if self._counts else 0.0


def gpu_memory() -> float | None:
    """Returns the share of the GPU's memory that is taken, by any process; None if PyTorch does not use a GPU.

    Memory that PyTorch keeps for later batches counts as free. To ask how much that is takes longer, so we ask only
    if the GPU looks full. Neither question waits for what the GPU is doing."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    free, total = torch.cuda.mem_get_info()
    taken: float = 1.0 - free / total
    if taken >= HIGH:
        stats = torch.cuda.memory_stats_as_nested_dict()
        held, in_use = (stats[kind]["all"]["current"] for kind in ("reserved_bytes", "allocated_bytes"))
        taken -= (held - in_use) / total
    return taken


def own_memory() -> int:
    """Returns the bytes that this process holds."""
    with STATM.open() as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def as_share(value: Any) -> float:
    """Returns a number or a text as a share, 0 to 1. A number above 1 is a percentage, and so is a text that ends
    in %."""
    percent = isinstance(value, str) and value.rstrip().endswith("%")
    number = float(value.rstrip().removesuffix("%") if percent else value)
    if not math.isfinite(number):
        raise ValueError(f"{value!r} does not say how full something is")
    if percent or number > 1.0:
        number /= 100.0
    return min(1.0, max(0.0, number))
