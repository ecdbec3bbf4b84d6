"""The loop of `penstock top`: a thread of its own asks the server again and again, and the main thread takes keys
and shows lines. So keys are heard while the server is slow. `cli/top.py` calls `watch`."""

import threading
from collections.abc import Callable
from contextlib import suppress

from penstock.overview.overview import Overview
from penstock.top.keys import Looking, pressed
from penstock.top.lists import rows_of
from penstock.top.screen import in_order, screen
from penstock.top.terminal import Terminal

Fetch = Callable[[], Overview]


class _Asking(threading.Thread):
    """Asks again and again. What it learned last is in `overview`; `trouble` says why it is not newer."""

    def __init__(self, fetch: Fetch, first: Overview, every: float, wake: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._fetch, self._every, self._wake = fetch, every, wake
        self.overview, self.trouble = first, ""
        self.over = threading.Event()  # set when the thread is to end

    def run(self) -> None:
        while not self.over.wait(self._every):
            try:
                self.overview, self.trouble = self._fetch(), ""
            except Exception as error:  # the server may be back with the next try
                self.trouble = f"No answer: {error}"
            self._wake()


def watch(fetch: Fetch, every: float) -> None:
    """Shows the overview until somebody leaves. `every`: seconds between two questions. The first answer is awaited
    before the screen is taken, so that a wrong address is told as every command tells it."""
    first = fetch()
    terminal = Terminal()
    asking = _Asking(fetch, first, every, terminal.wake)
    with suppress(KeyboardInterrupt), terminal.taken():
        asking.start()
        looking: Looking | None = Looking()
        shown = first
        while looking is not None:
            shown = shown if looking.paused else asking.overview
            width, height = terminal.size
            terminal.show(screen(shown, looking, width, height, asking.trouble))
            for key in terminal.hear():
                rows = rows_of(shown, looking.kind)
                names = [row.name for row in in_order(rows, looking)]
                looking = pressed(looking, key, names, len(rows.columns))
                if looking is None:
                    break
    asking.over.set()
