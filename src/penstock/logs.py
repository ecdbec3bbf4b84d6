"""Logs: JSON lines for machines, short lines for a terminal; never payloads or secrets.

A command that starts a server calls `set_up` once, before anything else logs. All other modules log through
Python's `logging` as usual, with `extra` for the fields of a line. The request log writes its own lines with
`write_lines`.
"""

import json
import logging
import sys
import time
from collections.abc import Callable
from datetime import datetime
from math import inf

from penstock.units import iso_time

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

LEVELS = ("debug", "info", "warning", "error")  # the most talkative first
FEW = 10  # lines of each kind in a second, where the inputs of tenants cause them
MOST_KINDS = 1000  # kinds of lines that are counted apart


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": iso_time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extras(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class ShortLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        said = _extras(record)
        trace = said.pop("traceback", "")
        extras = "".join(f"  {name}={value}" for name, value in said.items())
        line = f"{when} {record.levelname.lower():7} {record.getMessage()}{extras}"
        line += f"\n{trace}" if trace else ""
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _extras(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


class FewASecond(logging.Filter):
    """Lets through a few lines of each kind in a second, for what a client can cause as often as it likes.

    The next line of a kind says how many were left out.
    """

    def __init__(self, most: int = 1, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._most = most
        self._now = now
        # By kind of line: when its second began, how many were let through since, and how many were left out.
        self._kinds: dict[tuple[object, ...], tuple[float, int, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        # Only the beginning of a message counts: the event loop's own messages end with addresses in memory.
        kind = record.levelno, str(record.msg)[:40], record.exc_info[0] if record.exc_info else None
        now = self._now()
        began, told, left_out = self._kinds.get(kind, (-inf, 0, 0))
        if now - began >= 1.0:
            began, told = now, 0
        if told >= self._most:
            self._kinds[kind] = began, told, left_out + 1
            return False
        if len(self._kinds) >= MOST_KINDS:
            self._kinds.clear()
        self._kinds[kind] = began, told + 1, 0
        if left_out:
            record.left_out = left_out
        return True


def set_up(level: str, form: str) -> None:
    """Set up all logs of the process. `form`: `text`, `json`, or `auto`, which is text on a terminal and JSON
    elsewhere."""
    handler = logging.StreamHandler(sys.stderr)
    short = form == "text" or (form == "auto" and sys.stderr.isatty())
    handler.setFormatter(ShortLines() if short else JsonLines())
    root = logging.getLogger("penstock")
    root.handlers[:] = [handler]
    root.propagate = False
    set_level(level)
    loop = logging.getLogger("asyncio")  # tells of errors that nothing else catches
    loop.handlers[:] = [handler]
    loop.propagate = False
    for logger in (loop, logging.getLogger("penstock.doors")):
        logger.filters[:] = [FewASecond()]
    # Each input that a function refuses has lines in these logs.
    for name in ("penstock.worker", "penstock.dead_letters"):
        logging.getLogger(name).filters[:] = [FewASecond(FEW)]


def set_level(level: str) -> None:
    """Log from this level on."""
    logging.getLogger("penstock").setLevel(level.upper())


def write_lines(text: str) -> None:
    """Writes many finished lines at once, with no other line in between. Raises OSError."""
    for handler in logging.getLogger("penstock").handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.acquire()
            try:
                handler.stream.write(text)
                handler.flush()
            finally:
                handler.release()
