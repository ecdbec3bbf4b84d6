"""The terminal of `penstock top`: keys in, lines out, with nothing but the standard library. `watch.py` uses it.

Whatever ends the command, the terminal is as it was before: the screen, the cursor, the echo of keys.
"""

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from penstock.top.screen import Line

# Take a screen of our own and hide the cursor; and undo both.
ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
STYLES = {
    "good": "\x1b[1;32m", "warning": "\x1b[33m", "bad": "\x1b[1;31m", "title": "\x1b[1m", "soft": "\x1b[2m",
    "marked": "\x1b[7m",
}  # fmt: skip
PLAIN = "\x1b[0m"
# A frame begins at the upper left corner. Terminals that know how show it only once it is whole.
BEGIN, END = "\x1b[?2026h\x1b[H", "\x1b[?2026l"
KEYS = {
    "\x1b[A": "up", "\x1b[B": "down", "\x1bOA": "up", "\x1bOB": "down", "\x1b[5~": "pageup",
    "\x1b[6~": "pagedown", "\r": "enter", "\n": "enter", "\t": "tab", "\x7f": "backspace", "\x08": "backspace",
    " ": "space", "\x03": "ctrl-c", "\x04": "q", "\x1b": "escape",
}  # fmt: skip
REST = 0.05  # seconds for the rest of a key that is sent as several bytes


class Terminal:
    def __init__(self) -> None:
        self._in, self._out = sys.stdin.fileno(), sys.stdout.fileno()
        self._coloured = not os.environ.get("NO_COLOR")
        # A byte here says that something has happened which is no key: a new size, a new overview.
        self._woken, self._wakes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._before = termios.tcgetattr(self._in)

    def wake(self, *_: object) -> None:
        """Let `hear` return, though no key was pressed. Any thread, and a signal, may call this."""
        try:
            os.write(self._wakes, b".")
        except BlockingIOError:  # `hear` is woken already
            pass

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        columns, rows = os.get_terminal_size(self._out)
        return max(20, columns), max(6, rows)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """While this context is open, the screen is ours."""
        signal.signal(signal.SIGWINCH, self.wake)
        signal.signal(signal.SIGTERM, _end)
        signal.signal(signal.SIGHUP, _end)
        signal.signal(signal.SIGTSTP, self._stop)
        try:
            self._enter()
            yield
        finally:
            self._leave()

    def _enter(self) -> None:
        tty.setcbreak(self._in)
        self._write(ENTER)

    def _leave(self) -> None:
        self._write(PLAIN + LEAVE)
        termios.tcsetattr(self._in, termios.TCSADRAIN, self._before)

    def _stop(self, *_: object) -> None:
        """Ctrl-Z: the shell has its terminal back until it says `fg`."""
        self._leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._enter()
        self.wake()

    def show(self, lines: Sequence[Line]) -> None:
        styled = [
            f"{STYLES[line.style]}{line.text}{PLAIN}" if line.style and self._coloured else line.text
            for line in lines
        ]
        # Every line fills its columns, so nothing needs to be erased, which flickers.
        self._write(BEGIN + "\r\n".join(styled) + END)

    def hear(self) -> list[str]:
        """Waits for keys, or until woken; returns the keys."""
        ready, _, _ = select.select([self._in, self._woken], [], [])
        if self._woken in ready:
            os.read(self._woken, 4096)
        return self._read() if self._in in ready else []

    def _read(self) -> list[str]:
        said = os.read(self._in, 1024)
        if not said:  # the terminal has gone
            return ["q"]
        if said.endswith(b"\x1b") and select.select([self._in], [], [], REST)[0]:
            said += os.read(self._in, 1024)
        return _split(said.decode("utf-8", "replace"))

    def _write(self, text: str) -> None:
        left = memoryview(text.encode("utf-8", "replace"))
        while left:
            left = left[os.write(self._out, left) :]


def _split(said: str) -> list[str]:
    """The keys in what was read: known sequences by their name, letters as they are."""
    keys = []
    while said:
        found = next((code for code in KEYS if len(code) > 1 and said.startswith(code)), said[0])
        keys.append(KEYS.get(found, found))
        said = said[len(found) :]
    return keys


def _end(*_: object) -> None:
    raise SystemExit(0)
