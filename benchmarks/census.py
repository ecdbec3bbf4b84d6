"""`penstock` with one addition: told by SIGUSR1, it counts its own tasks and timers into a named pipe.

What a waiting request costs in tasks and timers cannot be seen from outside. Run as a program, by path; the
pipe is named by CENSUS.
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
    """Live ones by kind; uvloop's are told by name, since it shares no class with asyncio's."""
    found: Counter[str] = Counter()
    for thing in gc.get_objects():
        name = type(thing).__name__
        if name in KINDS and not _over(thing):
            found[name] += 1
    return {kind: found[kind] for kind in KINDS}


def _over(thing: object) -> bool:
    """A task that is done, or a timer that was cancelled, only awaits its collection."""
    over = getattr(thing, "done", None) or getattr(thing, "cancelled", None)
    return bool(over()) if over is not None else False


def _tell(_signal: int, _frame: FrameType | None) -> None:
    Path(os.environ["CENSUS"]).write_text(json.dumps(counted()))


if __name__ == "__main__":
    from penstock.cli import main

    signal.signal(signal.SIGUSR1, _tell)
    sys.exit(main())
