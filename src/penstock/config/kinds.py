"""Kinds of values: how each is read from a file or from text, refused, and written again.

A field in `sections` has its kind in its annotation, so that a key is described once: `port: Annotated[int,
Whole(0, 65535)] = 8000`. All classes but `Kind` implement `Kind`. `load` calls `take` and `read`; `penstock check`
shows what `write` returns. What a worker announces of its model is checked by them too
(`cluster/announcements.py`). Pure.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, Protocol

from penstock.config.toml import toml
from penstock.units import (
    DURATION_HINT,
    SIZE_HINT,
    parse_duration,
    parse_size,
    write_duration,
    write_size,
)

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?")
TRUE_WORDS, FALSE_WORDS = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


class Kind(Protocol):
    """What a key's value may be. `take` and `read` raise ValueError. `wanted` completes the sentence "must be …" of
    a refusal."""

    @property
    def wanted(self) -> str: ...

    def take(self, value: object) -> Any:
        """Takes a value that already has a type: from a file, or from the command line."""
        ...

    def read(self, text: str) -> Any:
        """Reads a text: from the environment, or from the command line."""
        ...

    def write(self, value: Any) -> str:
        """Returns the value as TOML."""
        ...


@dataclass(frozen=True, slots=True)
class Number:
    """A number within bounds."""

    low: float = 0
    high: float = inf
    above: bool = False  # `low` itself is not allowed

    @property
    def wanted(self) -> str:
        if self.high != inf:
            return f"a number from {self.low:g} to {self.high:g}"
        return f"a number {'above' if self.above else 'of at least'} {self.low:g}"

    def take(self, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise ValueError(value)
        if not self.low <= value <= self.high or (self.above and value == self.low):
            raise ValueError(value)
        return float(value)

    def read(self, text: str) -> float:
        return self.take(float(text))

    def write(self, value: float) -> str:
        return repr(value).removesuffix(".0")


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number within bounds."""

    low: int = 0
    high: int | None = None

    @property
    def wanted(self) -> str:
        reach = f"of at least {self.low}" if self.high is None else f"from {self.low} to {self.high}"
        return f"a whole number {reach}"

    def take(self, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(value)
        if value < self.low or (self.high is not None and value > self.high):
            raise ValueError(value)
        return value

    def read(self, text: str) -> int:
        return self.take(int(text))

    def write(self, value: int) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class Duration:
    """Seconds in the configuration, a number with a unit in the file."""

    zero: bool = False  # whether 0 is allowed

    @property
    def wanted(self) -> str:
        return DURATION_HINT + ("" if self.zero else ", above 0")

    def take(self, value: object) -> float:
        seconds = parse_duration(value)
        if seconds == 0 and not self.zero:
            raise ValueError(value)
        return seconds

    def read(self, text: str) -> float:
        return self.take(text)

    def write(self, value: float) -> str:
        return f'"{write_duration(value)}"'


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes in the configuration, a number with a unit in the file."""

    @property
    def wanted(self) -> str:
        return SIZE_HINT + ", above 0"

    def take(self, value: object) -> int:
        size = parse_size(value)
        if size == 0:
            raise ValueError(value)
        return size

    def read(self, text: str) -> int:
        return self.take(text)

    def write(self, value: int) -> str:
        return f'"{write_size(value)}"'


@dataclass(frozen=True, slots=True)
class Flag:
    """Yes or no."""

    wanted: str = "true or false"

    def take(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise ValueError(value)
        return value

    def read(self, text: str) -> bool:
        word = text.strip().lower()
        if word not in TRUE_WORDS + FALSE_WORDS:
            raise ValueError(text)
        return word in TRUE_WORDS

    def write(self, value: bool) -> str:
        return toml(value)


@dataclass(frozen=True, slots=True)
class Text:
    """A text."""

    empty: bool = False  # whether it may be empty

    @property
    def wanted(self) -> str:
        return "a text" if self.empty else "a text that is not empty"

    def take(self, value: object) -> str:
        if not isinstance(value, str) or not (value.strip() or self.empty):
            raise ValueError(value)
        return value

    def read(self, text: str) -> str:
        return self.take(text)

    def write(self, value: str) -> str:
        return toml(value)


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of a few whole numbers."""

    numbers: tuple[int, ...]

    @property
    def wanted(self) -> str:
        return " or ".join(map(str, self.numbers))

    def take(self, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value not in self.numbers:
            raise ValueError(value)
        return value

    def read(self, text: str) -> int:
        return self.take(int(text))

    def write(self, value: int) -> str:
        return str(value)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]
    or_function: bool = False  # also "module:function" and "file.py:function" are allowed

    @property
    def wanted(self) -> str:
        wanted = "one of " + ", ".join(toml(word) for word in self.words)
        return wanted + (', or "module:function", or "file.py:function"' if self.or_function else "")

    def take(self, value: object) -> str:
        if not isinstance(value, str):
            raise ValueError(value)
        where, colon, function = value.rpartition(":")
        if value not in self.words and not (self.or_function and where and colon and function):
            raise ValueError(value)
        return value

    def read(self, text: str) -> str:
        return self.take(text)

    def write(self, value: str) -> str:
        return toml(value)


@dataclass(frozen=True, slots=True)
class Ids:
    """A list of ids. Whole numbers are ids too, since that is how GPUs are numbered."""

    wanted: str = 'a list of ids such as [0, 1] or ["GPU-5d3f…"]'

    def take(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, list | tuple):
            raise ValueError(value)
        if any(isinstance(item, bool) or not isinstance(item, int | str) for item in value):
            raise ValueError(value)
        ids = tuple(str(item).strip() for item in value)
        if "" in ids:
            raise ValueError(value)
        return ids

    def read(self, text: str) -> tuple[str, ...]:
        """Reads `0,1` or `["0", "1"]`."""
        if text.strip().startswith("["):
            return self.take(json.loads(text))
        return self.take(text.split(",") if text.strip() else [])

    def write(self, value: tuple[str, ...]) -> str:
        return toml(list(value))


@dataclass(frozen=True, slots=True)
class Origins(Ids):
    """Where web pages come from, as a browser writes it: a scheme, a host, and a port that is not the usual one."""

    wanted: str = 'a list of origins such as ["https://app.example"], or ["*"] for all'

    def take(self, value: object) -> tuple[str, ...]:
        origins = Ids.take(self, value)
        if any(origin != "*" and not _ORIGIN.fullmatch(origin) for origin in origins):
            raise ValueError(value)
        return origins


@dataclass(frozen=True, slots=True)
class InputsOrNone:
    """Inputs as JSON values: a list of them, or one that is a text or a table; or None, written as `false`. None of
    them may be null, which TOML does not have."""

    wanted: str = "an input, a list of inputs, or false"

    def take(self, value: object) -> tuple[object, ...] | None:
        if value is False:
            return None
        if isinstance(value, str | dict):
            value = [value]
        if not isinstance(value, list | tuple) or not all(is_plain(item) for item in value):
            raise ValueError(value)
        return tuple(value)

    def read(self, text: str) -> tuple[object, ...] | None:
        """Reads JSON, a word for no, or a text as it stands."""
        if text.strip().lower() in FALSE_WORDS:
            return None
        return self.take(json.loads(text) if text.lstrip()[:1] in ("[", "{", '"') else text)

    def write(self, value: tuple[object, ...] | None) -> str:
        return toml(False if value is None else list(value))


@dataclass(frozen=True, slots=True)
class Secret(Text):
    """A text that is never shown."""

    empty: bool = True

    def write(self, value: str) -> str:
        return Text.write(self, "***" if value else "")


@dataclass(frozen=True, slots=True)
class Url(Text):
    """A URL, or another text, shown without the secrets that a URL may hold."""

    def write(self, value: str) -> str:
        return Text.write(self, without_secrets(value))


def without_secrets(url: str) -> str:
    """Returns a URL without what may be a secret: its password, a user's name that stands alone, and the values in
    its query. Another text stays as it is."""
    if "://" not in url:
        return url
    return _QUERY_VALUE.sub(r"\1=***", _USER.sub(lambda found: f"://{found[1] or ''}***@", url))


_USER = re.compile(
    r"://([^/?#:]*:)?[^/?#]*@"
)  # up to the last @ of the host's part: a password may hold some
_QUERY_VALUE = re.compile(r"(?<=[?&])([^=&#]*)=[^&#]+")


@dataclass(frozen=True, slots=True)
class Command(Text):
    """A command line, shown without its words after the first: any of them may be a secret."""

    empty: bool = True

    def write(self, value: str) -> str:
        first, *others = value.split() or [""]
        return Text.write(self, f"{first} ***" if others else first)


@dataclass(frozen=True, slots=True)
class Headers:
    """Names and values, of which only the names are ever shown: a value may be a secret."""

    wanted: str = 'header names and texts, such as { Authorization = "Bearer …" }'

    def take(self, value: object) -> dict[str, str]:
        if not isinstance(value, Mapping):
            raise ValueError("not a table")
        for name, text in value.items():
            if not _HEADER_NAME.fullmatch(name) or not isinstance(text, str) or not text.isprintable():
                raise ValueError(name)
        return dict(value)

    def read(self, text: str) -> dict[str, str]:
        return self.take(json.loads(text))

    def write(self, value: Mapping[str, str]) -> str:
        return toml(dict.fromkeys(value, "***"))


@dataclass(frozen=True, slots=True)
class Labels:
    """Names and texts that describe something, and are no secret."""

    wanted: str = 'names and texts, such as { "deployment.environment.name" = "test" }'

    def take(self, value: object) -> dict[str, str]:
        if not isinstance(value, Mapping):
            raise ValueError("not a table")
        for name, text in value.items():
            if not name or not isinstance(text, str):
                raise ValueError(name)
        return dict(value)

    def read(self, text: str) -> dict[str, str]:
        return self.take(json.loads(text))

    def write(self, value: Mapping[str, str]) -> str:
        return toml(dict(value))


def is_plain(value: object) -> bool:
    """Returns whether both JSON and TOML can hold the value."""
    if isinstance(value, dict):
        return all(is_plain(item) for item in value.values())
    if isinstance(value, list):
        return all(is_plain(item) for item in value)
    return isinstance(value, str | int) or (isinstance(value, float) and isfinite(value))
