"""The lines of a job's file: how they are read and checked, and what is written of each. `led_job.py` calls it.
Nothing here waits, and a call looks at a few hundred kilobytes at most."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from penstock.jobs import Answered, Job, Mistake, Said

MOST_MISTAKES = 100  # that are told of one file
LONGEST_ID = 512  # characters of a custom_id


class Line(msgspec.Struct):
    """One line of an input."""

    custom_id: str
    method: str
    url: str
    body: msgspec.Raw


_LINE = msgspec.json.Decoder(Line)


class Splitter:
    """Cuts the pieces of a file into its lines. Empty lines count as none."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._rest = b""
        self.number = 0  # lines so far

    def feed(self, piece: bytes) -> Iterator[tuple[int, bytes]]:
        """Yields the lines that end in this piece, each with its number. An empty piece is the end of the file. Of
        a line that is too long only its beginning is yielded, which is too long as well."""
        *whole, rest = (self._rest + piece).split(b"\n")
        if not piece and rest:
            whole.append(rest)
            rest = b""
        self._rest = rest[: self._longest + 1]
        for line in whole:
            if line and not line.isspace():
                yield self.number, line
                self.number += 1


class Check:
    """Checks each line of an input, before any is run."""

    def __init__(self, job: Job, most_lines: int, longest: int) -> None:
        self._endpoint, self._most, self._longest = job.endpoint, most_lines, longest
        self._seen = set[str]()
        self.mistakes: list[Mistake] = []

    @property
    def enough(self) -> bool:
        """Whether so much is wrong that the rest need not be looked at."""
        return len(self.mistakes) >= MOST_MISTAKES

    def look(self, number: int, text: bytes) -> None:
        """Check a line. `number`: counted from 0."""
        if number >= self._most:
            if number == self._most:
                self._note(
                    number, "too_many_lines", f"there are more than {self._most} lines (files.max_lines)"
                )
            return
        if len(text) > self._longest:
            self._note(
                number, "line_too_large", f"the line is longer than {self._longest} bytes (limits.max_body)"
            )
            return
        try:
            line = read_line(text)
        except msgspec.MsgspecError as error:
            self._note(number, "invalid_json_line", f"the line is not what it should be: {error}")
            return
        if not 0 < len(line.custom_id) <= LONGEST_ID:
            self._note(number, "invalid_custom_id", f"'custom_id' must be 1 to {LONGEST_ID} characters long")
        elif line.custom_id in self._seen:
            self._note(number, "duplicate_custom_id", f"'custom_id' {line.custom_id[:100]!r} is there before")
        elif line.method != "POST":
            self._note(number, "invalid_method", "'method' must be POST")
        elif line.url != self._endpoint:
            self._note(number, "mismatched_url", f"'url' must be the endpoint of the batch, {self._endpoint}")
        elif not bytes(line.body).startswith(b"{"):
            self._note(number, "invalid_body", "'body' must be an object")
        self._seen.add(line.custom_id)

    def finish(self, lines: int) -> None:
        if not lines:
            self.mistakes.append(Mistake("empty_file", "there is no line in the file"))

    def _note(self, number: int, code: str, message: str) -> None:
        if not self.enough:
            self.mistakes.append(Mistake(code, message, number + 1))


def read_line(text: bytes) -> Line:
    """Raises MsgspecError for a line that is not what it should be."""
    try:
        return _LINE.decode(text)
    except (UnicodeDecodeError, RecursionError):
        raise msgspec.DecodeError("it is not UTF-8") from None


def answered(name: str, index: int, custom_id: str, said: Said) -> Answered:
    """What is written of a line that was answered. An answer is one line itself: in JSON a newline stands between
    values only, where a space means the same."""
    body = said.body.replace(b"\n", b" ").replace(b"\r", b" ")
    start = (
        b'{"id":"%b","custom_id":%b,"response":{"status_code":%d,"request_id":"%b","body":%b},"error":null}\n'
    )
    values = (name.encode(), msgspec.json.encode(custom_id), said.status, name.encode(), body)
    return Answered(index, start % values, said.status == 200)


def not_executed(name: str, index: int, custom_id: str) -> Answered:
    """What is written of a line for which there was no time."""
    error = {"code": "batch_expired", "message": "the time of the batch was over before this line was run"}
    said: Mapping[str, Any] = {"id": name, "custom_id": custom_id, "response": None, "error": error}
    return Answered(index, msgspec.json.encode(said) + b"\n", False)
