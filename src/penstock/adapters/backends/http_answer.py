"""Takes what matters out of an endpoint's answer; only the frame around the outputs is read."""

from collections.abc import Mapping
from types import GenericAlias
from typing import Any, Protocol

import msgspec

from penstock.adapters.backends.pressure import as_share
from penstock.errors import BatchRejected

HEADER = "header:"  # begins the place of a value that is in a header
SHOWN = 200  # characters of a foreign text that are worth repeating


class Places(Protocol):
    """Where things are in an answer: dotted paths, or `header:NAME`."""

    @property
    def outputs(self) -> str: ...

    @property
    def item(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def pressure(self) -> str: ...


class AnswerReader:
    """Takes the outputs out of a response without decoding them."""

    def __init__(self, shape: Places) -> None:
        self.place = "endpoint's response" + (f" at {shape.outputs!r}" if shape.outputs else "")
        self._outer, self._inner = _names(shape.outputs), _names(shape.item)
        outputs = GenericAlias(list, (_nested(self._inner, msgspec.Raw),))
        self._decoder = msgspec.json.Decoder(_nested(self._outer, outputs))
        self._version, self._pressure = _Word(shape.version), _Word(shape.pressure)

    def outputs(self, content: bytes) -> list[bytes]:
        try:
            if not content.isascii():
                content.decode()  # strings inside raw JSON are not looked at by the decoder
            found = _leaf(self._outer, self._decoder.decode(content))
        except msgspec.ValidationError as error:
            raise BatchRejected(f"{self.place}: expected a list of outputs: {error}") from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BatchRejected(f"endpoint's response is not JSON: {error}") from error
        return [bytes(_leaf(self._inner, element)) for element in found]

    def version(self, content: bytes, headers: Mapping[str, str]) -> str:
        """Where the endpoint names one; an answer without it is as good."""
        version = str(self._version.find(content, headers))
        return version[:SHOWN].encode(errors="replace").decode()

    def pressure(self, content: bytes, headers: Mapping[str, str]) -> float:
        """What is not there, or is not a number, says nothing."""
        try:
            return as_share(self._pressure.find(content, headers))
        except ValueError:
            return 0.0


class _Word:
    """One value that an answer may have beside its outputs, at a path or in a header; "" where it has none."""

    def __init__(self, place: str) -> None:
        by_header = place.startswith(HEADER)
        self._header = place.removeprefix(HEADER) if by_header else ""
        self._path = [] if by_header else _names(place)
        self._decoder = msgspec.json.Decoder(_nested(self._path, str | int | float))

    def find(self, content: bytes, headers: Mapping[str, str]) -> str | int | float:
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
    """A type that finds `leaf` under the names and passes over all beside it; a number is a place in a list."""
    for name in reversed(names):
        if name.isdecimal():
            before: list[Any] = [(f"before{place}", msgspec.Raw) for place in range(int(name))]
            leaf = msgspec.defstruct("Level", [*before, ("below", leaf)], array_like=True)
        else:
            leaf = msgspec.defstruct("Level", [("below", leaf)], rename={"below": name})
    return leaf


def _leaf(names: list[str], value: Any) -> Any:
    for _ in names:
        value = value.below
    return value
