"""`penstock` with one addition: on SIGUSR1 it counts its own tasks and timers and writes that into a named pipe.

The benchmark `waiting` runs it as a program, because these objects cannot be counted from outside. The variable
CENSUS names the pipe.
"""

import gc
import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

KINDS = ("Task", "TimerHandle", "Future", "coroutine")


def counted() -> dict[str, int]:
    """Live objects by kind. The kind is the name of the class, because uvloop has classes of its own."""
    found: Counter[str] = Counter()
    for thing in gc.get_objects():
        name = type(thing).__name__
        if name in KINDS and not _over(thing):
            found[name] += 1
    return {kind: found[kind] for kind in KINDS}


def _over(thing: object) -> bool:
    """Whether a task is done or a timer cancelled, so that it only waits for the collector."""
    over = getattr(thing, "done", None) or getattr(thing, "cancelled", None)
    return bool(over()) if over is not None else False


def _tell(_signal: int, _frame: FrameType | None) -> None:
    Path(os.environ["CENSUS"]).write_text(json.dumps(counted()))


if __name__ == "__main__":
    from penstock.cli import main

    signal.signal(signal.SIGUSR1, _tell)
    sys.exit(main())
