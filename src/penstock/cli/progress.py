"""The line on a terminal that shows a long calculation while it runs. `sim.py` and `plan.py` show it."""

from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text


class Line:
    """One line that is rewritten in place, and gone when the calculation is over."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, text: str) -> None:
        self._live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)
