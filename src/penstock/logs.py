"""Logs: JSON lines for machines, short lines for a terminal; never payloads or secrets (SPEC I7)."""

import json
import logging
import sys
from datetime import UTC, datetime

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {
            "time": when.replace("+00:00", "Z"),
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


def set_up(level: str, form: str) -> None:
    """`auto` is short lines on a terminal and JSON elsewhere."""
    handler = logging.StreamHandler(sys.stderr)
    short = form == "text" or (form == "auto" and sys.stderr.isatty())
    handler.setFormatter(ShortLines() if short else JsonLines())
    root = logging.getLogger("penstock")
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    root.propagate = False


def write_lines(text: str) -> None:
    """Many ready ones at once, and none of the others in between. Raises OSError."""
    for handler in logging.getLogger("penstock").handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.acquire()
            try:
                handler.stream.write(text)
                handler.flush()
            finally:
                handler.release()
