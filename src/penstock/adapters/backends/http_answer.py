"""Takes outputs, version and pressure out of the answer of a user's own HTTP endpoint. `dialects/described.py`
reads each good answer with it; nothing here does I/O.

Only the JSON around the outputs is read: each output stays the bytes that the endpoint wrote.
"""

from collections.abc import Mapping
from types import GenericAlias
from typing import Any, Protocol

import msgspec

from penstock.adapters.backends.pressure import as_share
from penstock.errors import BatchRejected

HEADER = "header:"  # begins the setting of a value that comes in a header
SHOWN = 200  # characters of an endpoint's text that a message repeats


class Paths(Protocol):
    """Where things are in an answer, as `[models.NAME.http]` says it: dotted paths, or `header:NAME`."""

    @property
    def outputs(self) -> str: ...

    @property
    def item(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def pressure(self) -> str: ...


class AnswerReader:
    """Reads the answers of one endpoint. `where`: what messages call the list of outputs."""

    def __init__(self, shape: Paths) -> None:
        self.where = "endpoint's response" + (f" at {shape.outputs!r}" if shape.outputs else "")
        self._outer, self._inner = _names(shape.outputs), _names(shape.item)
        outputs = GenericAlias(list, (_nested(self._inner, msgspec.Raw),))
        self._decoder = msgspec.json.Decoder(_nested(self._outer, outputs))
        self._version, self._pressure = _Value(shape.version), _Value(shape.pressure)

    def outputs(self, content: bytes) -> list[bytes]:
        """Returns the outputs as JSON. Raises BatchRejected if they are not there."""
        try:
            if not content.isascii():
                content.decode()  # the decoder does not look at strings inside raw JSON
            found = _leaf(self._outer, self._decoder.decode(content))
        except msgspec.ValidationError as error:
            raise BatchRejected(f"{self.where}: expected a list of outputs: {error}") from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BatchRejected(f"endpoint's response is not JSON: {error}") from error
        return [bytes(_leaf(self._inner, element)) for element in found]

    def version(self, content: bytes, headers: Mapping[str, str]) -> str:
        """Returns the model's version; empty if the endpoint names none."""
        version = str(self._version.find(content, headers))
        return version[:SHOWN].encode(errors="replace").decode()

    def pressure(self, content: bytes, headers: Mapping[str, str]) -> float:
        """Returns how full the endpoint is, 0 to 1; 0 if the value is missing or is no number."""
        try:
            return as_share(self._pressure.find(content, headers))
        except ValueError:
            return 0.0


class _Value:
    """One value that an answer may have beside its outputs, at a path or in a header; "" where it has none."""

    def __init__(self, path: str) -> None:
        in_header = path.startswith(HEADER)
        self._header = path.removeprefix(HEADER) if in_header else ""
        self._path = [] if in_header else _names(path)
        self._decoder = msgspec.json.Decoder(_nested(self._path, str | int | float))

    def find(self, content: bytes, headers: Mapping[str, str]) -> str | int | float:
        """Returns the value; "" if the answer has none."""
        if self._header:
            return headers.get(self._header, "")
        try:
            found: str | int | float = _leaf(self._path, self._decoder.decode(content)) if self._path else ""
        except msgspec.DecodeError:
            return ""
        return found


def _names(path: str) -> list[str]:
    return path.split(".") if path else []


def _nested(names: list[str], leaf: Any) -> Any:
    """Returns a type that finds `leaf` under the names and ignores all beside it. A number is an index into a
    list."""
    for name in reversed(names):
        if name.isdecimal():
            before: list[Any] = [(f"before{index}", msgspec.Raw) for index in range(int(name))]
            leaf = msgspec.defstruct("Level", [*before, ("below", leaf)], array_like=True)
        else:
            leaf = msgspec.defstruct("Level", [("below", leaf)], rename={"below": name})
    return leaf


def _leaf(names: list[str], value: Any) -> Any:
    """Returns what was found under the names in a value of the type that `_nested` makes of them."""
    for _ in names:
        value = value.below
    return value
