"""A file of traces, for `penstock explain --trace`: OTLP in JSON, as the file exporter of OpenTelemetry's collector
writes it. There is one request of OTLP in each line, or one in the whole file. `explain.py` opens it.

The file may be large, and is read from its beginning for each question. Only the lines in which one of the asked
ids stands are decoded.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import msgspec

from penstock.errors import UserMistake
from penstock.explanation.otlp_json import Span, spans_in

LONGEST_QUOTE = 200  # characters of a decoder's message, which may quote the file


class TraceFile:
    def __init__(self, path: Path) -> None:
        """Raises UserMistake if the file cannot be read."""
        self._path = path
        self._whole = b""  # the file, if it is one text
        try:
            with path.open("rb") as file:
                first = file.readline()
                if not _is_json(first):
                    self._whole = first + file.read()
        except OSError as error:
            raise self._unreadable(error) from None

    def holding(self, words: Collection[str]) -> Iterator[Span]:
        """Yields the spans of all texts in which any of these words stands. Raises UserMistake."""
        pattern = re.compile(b"|".join(re.escape(word.encode()) for word in words), re.IGNORECASE)
        for number, text in enumerate(self._texts(), 1):
            if not pattern.search(text):
                continue
            try:
                yield from spans_in(text)
            except ValueError as error:
                if not self._whole and not text.endswith(b"\n"):
                    return  # it is being written
                why = str(error)[:LONGEST_QUOTE]
                raise UserMistake(f"{self._path}, line {number}, is not OTLP in JSON: {why}") from None

    def _texts(self) -> Iterable[bytes]:
        if self._whole:
            yield self._whole
            return
        try:
            with self._path.open("rb") as file:
                yield from file
        except OSError as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: OSError) -> UserMistake:
        return UserMistake(f"--trace: {self._path} cannot be read: {error.strerror or error}")


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line, type=msgspec.Raw)
    except (ValueError, RecursionError):
        return False
    return True
