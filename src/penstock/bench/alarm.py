"""An alarm clock for the event loop that is exact to microseconds. The walk through the schedule waits on it
(`load.py`).

The loop's own timers count whole milliseconds, which is as long as a fast server takes to answer: a generator that
used them would mostly measure itself. The kernel's timerfd does not round.
"""

import asyncio
import ctypes
import os
import time
from collections.abc import Callable

_ABSOLUTE = 1  # TFD_TIMER_ABSTIME


class _Interval(ctypes.Structure):
    """struct itimerspec, as four longs: repeat (never, here), then the moment to ring."""

    _fields_ = (
        ("repeat_seconds", ctypes.c_long),
        ("repeat_nanoseconds", ctypes.c_long),
        ("seconds", ctypes.c_long),
        ("nanoseconds", ctypes.c_long),
    )


class Alarm:
    """Calls `ring` once at each moment that it is set for. Moments are those of `time.monotonic()`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._when = _Interval()
        self._fd: int = self._libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create failed")
        loop.add_reader(self._fd, ring)

    def set(self, moment: float) -> None:
        """Ring at this moment; at once if it is past. An alarm that was set before and has not rung is
        cancelled."""
        nanoseconds = max(1, int(moment * 1e9))
        self._when.seconds, self._when.nanoseconds = divmod(nanoseconds, 1_000_000_000)
        self._libc.timerfd_settime(self._fd, _ABSOLUTE, ctypes.byref(self._when), None)

    def close(self) -> None:
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
