"""The files of `penstock map`: reads lines of JSON as inputs, and knows which lines of an earlier run are done.
`file_job.py` uses both. Each line of the outputs names its line in the inputs, and a hash of it, so that a run that
was broken off goes on where it was, and notices if the inputs are not the same any more.
"""

from array import array
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from penstock.errors import UserMistake

FIELDS = ("id", "input", "parameters", "model")
CHUNK = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Form:
    """How a line of the inputs is read. `whole`: all of its JSON is the input. `field`: the line is an object, and
    the field of this name is the input."""

    field: str = ""
    whole: bool = False


class Line(msgspec.Struct, frozen=True):
    """One line of the inputs."""

    number: int  # the first is 1
    digest: int  # of the line as it stands in the file
    input: Any = None
    id: Any = msgspec.UNSET
    parameters: dict[str, Any] | None = None
    model: str | None = None
    mistake: str = ""  # why the line cannot be sent; empty if it can


class Written(msgspec.Struct, omit_defaults=True):
    """One line of the outputs."""

    line: int
    input_hash: str
    output: Any = None
    id: Any = msgspec.UNSET


class _Mark(msgspec.Struct):
    """What is read of a line of the outputs: to which line of the inputs it belongs."""

    line: int
    input_hash: str


_value = msgspec.json.Decoder().decode
_mark = msgspec.json.Decoder(_Mark).decode


def digest_of(line: bytes) -> int:
    """Returns the hash of a line. It is never 0, which stands for a line that is not done."""
    return int.from_bytes(blake2b(line, digest_size=8).digest(), "big") or 1


def in_hex(digest: int) -> str:
    """Returns a hash as it stands in the outputs."""
    return f"{digest:016x}"


def read_line(number: int, text: bytes, form: Form) -> Line:
    """Returns a line of the inputs. One that cannot be sent has a `mistake`."""
    digest = digest_of(text)
    try:
        value = _value(text)
        return _line(number, digest, value, form)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Line(number, digest, mistake=f"not JSON: {error}")
    except ValueError as error:
        return Line(number, digest, mistake=str(error))


def _line(number: int, digest: int, value: Any, form: Form) -> Line:
    if form.whole or (not isinstance(value, dict) and not form.field):
        return Line(number, digest, value)
    if not isinstance(value, dict):
        raise ValueError(f"not an object with a field {form.field!r}")
    field = form.field or "input"
    if field not in value:
        hint = "" if form.field else "; --field names another one, and --whole sends the line as it is"
        raise ValueError(f"there is no field {field!r}{hint}")
    unknown = [] if form.field else [name for name in value if name not in FIELDS]
    if unknown:
        raise ValueError(
            f"unknown field {unknown[0]!r}; known are {', '.join(FIELDS)}. --field input passes over others"
        )
    parameters, model = (None, None) if form.field else (value.get("parameters"), value.get("model"))
    if not isinstance(parameters, dict | None) or not isinstance(model, str | None):
        raise ValueError("'parameters' must be an object, and 'model' a text")
    return Line(number, digest, value[field], value.get("id", msgspec.UNSET), parameters, model)


class DoneBefore:
    """The lines of the inputs that an earlier run has done. It takes 8 bytes of memory for each line of the
    inputs."""

    def __init__(self) -> None:
        self._digests = array("Q")
        self.count = 0

    def note(self, number: int, digest: int) -> None:
        """Notes that a line is done. `number`: of the line in the inputs, from 1."""
        missing = number - len(self._digests)
        if missing > 0:
            self._digests.frombytes(bytes(8 * max(missing, len(self._digests) // 4)))
        self.count += not self._digests[number - 1]
        self._digests[number - 1] = digest

    def digest(self, number: int) -> int:
        """Returns the hash of a line that is done; 0 for a line that is not."""
        return self._digests[number - 1] if number <= len(self._digests) else 0


def read_done(path: Path) -> tuple[DoneBefore, int]:
    """Returns what the outputs hold, and how many of their bytes are whole lines: the last line may have been cut
    off. Raises UserMistake if they hold something else."""
    done, whole = DoneBefore(), 0
    if not path.exists():
        return done, whole
    with path.open("rb") as file:
        for row, text in enumerate(file, 1):
            if not text.endswith(b"\n"):
                break
            whole += len(text)
            try:
                mark = _mark(text)
                if not 0 < mark.line < 1 << 34:
                    raise ValueError(mark.line)
                done.note(mark.line, int(mark.input_hash, 16))
            except (msgspec.DecodeError, UnicodeDecodeError, ValueError, OverflowError):
                raise UserMistake(
                    f"{path}: line {row} was not written by `penstock map`: name another file for the outputs,"
                    " or say --restart to write over this one"
                ) from None
    return done, whole


class Unfinished:
    """Finds the lines that are not done, one after the other. `name`: of the file, for messages."""

    def __init__(self, form: Form, done: DoneBefore, name: str) -> None:
        self._form, self._done, self._name = form, done, name
        self._number = 0

    def next(self, text: bytes) -> Line | None:
        """Returns the next line if it is to be done. Raises UserMistake if it is done, and has changed since."""
        self._number += 1
        text = text.strip()
        if not text:
            return None
        before = self._done.digest(self._number)
        if before and before != digest_of(text):
            raise UserMistake(
                f"line {self._number} of {self._name} is not what it was when its output was written: name another"
                " file for the outputs, or say --restart"
            )
        return None if before else read_line(self._number, text, self._form)


def count_lines(path: Path) -> int:
    """Returns the number of lines, for a progress bar."""
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(CHUNK), b""))
