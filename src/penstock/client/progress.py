"""The progress bar of a `map`, on a terminal. `async_map.py` and `sync_map.py` show one, unless standard error
is no terminal."""

import sys
import time
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from penstock.client.course import Course

OFTEN = 0.1  # seconds between two drawings of the bar


class Progress(Protocol):
    """What shows how far a `map` has come. `show` may be called as often as one likes."""

    def show(self, course: "Course[Any, Any]") -> None: ...
    def close(self) -> None: ...


class NoProgress:
    """Implements `Progress` where nobody looks."""

    def show(self, course: "Course[Any, Any]") -> None:
        pass

    def close(self) -> None:
        pass


class Bar:
    """Implements `Progress` on a terminal: how many inputs are done, how fast, how many have failed, and how long
    the rest will take."""

    def __init__(self, total: int | None) -> None:
        # `rich` takes a tenth of a second to import, and is needed on a terminal only.
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[failed]}"),
            console=Console(stderr=True),
            auto_refresh=False,
        )
        self._task = self._bar.add_task("", total=total, rate="", failed="")
        self._began = self._shown = time.monotonic()
        self._started = False  # whether the bar is on the terminal
        self._last: Course[Any, Any] | None = None  # what was shown last

    def show(self, course: "Course[Any, Any]") -> None:
        now = time.monotonic()
        self._last = course
        if not self._started:
            self._started = True
            self._began = now
            self._bar.start()
        elif now - self._shown >= OFTEN:
            self._draw(course, now)

    def close(self) -> None:
        if self._started:
            self._started = False
            if self._last is not None:
                self._draw(self._last, time.monotonic())
            self._bar.stop()

    def _draw(self, course: "Course[Any, Any]", now: float) -> None:
        self._shown = now
        ended = course.done + course.failed
        rate = ended / max(now - self._began, 1e-9)
        failed = f"{course.failed:,} failed" if course.failed else ""
        self._bar.update(self._task, completed=ended, rate=f"{rate:,.0f}/s", failed=failed)
        self._bar.refresh()


def progress_for(wanted: bool | None, total: int | None) -> Progress:
    """Returns what shows the progress. `wanted`: whether there is a bar; None: if standard error is a terminal.
    `total`: how many inputs there are; None if that is not known."""
    if wanted is None:
        wanted = sys.stderr is not None and sys.stderr.isatty()
    return Bar(total) if wanted else NoProgress()
