"""Changes values in a configuration file and leaves everything else in it as it stands, comments too.
`penstock tune --apply` does so (`cli/apply.py`). Text in, text out: no file is touched here."""

import re
import tomllib
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from penstock.config.toml import KeyPath, dotted, key_lines, toml
from penstock.errors import UserMistake

# A key, bare or quoted or dotted, up to its value.
_KEY = re.compile(
    r"""\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*\s*=\s*"""
)


def edited(text: str, values: Mapping[KeyPath, object]) -> str:
    """Returns the text with these values. Raises UserMistake if one stands where it cannot be changed by itself, as
    in a table on one line."""
    wanted = tomllib.loads(text)
    for path, value in values.items():
        text = _with(text, path, value)
        _set(wanted, path, value)
        try:
            agrees = tomllib.loads(text) == wanted
        except tomllib.TOMLDecodeError:
            agrees = False
        if not agrees:
            raise UserMistake(
                f"{dotted(path)} cannot be changed in the file as it stands: write {toml(value)} there"
            )
    return text


def _with(text: str, path: KeyPath, value: object) -> str:
    """Returns the text with one value changed or added."""
    known, lines = key_lines(text), text.split("\n")
    if path in known:
        row = known[path] - 1
        if found := _KEY.match(lines[row]):
            lines[row] = found[0] + toml(value) + _after(lines[row], found.end())
        return "\n".join(lines)
    line = f"{dotted(path[-1:])} = {toml(value)}"
    if path[:-1] in known:
        row = known[path[:-1]]
        ending = "\r" if lines[row - 1].endswith("\r") else ""
        return "\n".join([*lines[:row], line + ending, *lines[row:]])
    between = "\n" if text and not text.endswith("\n") else ""
    return f"{text}{between}\n[{dotted(path[:-1])}]\n{line}\n"


def _after(line: str, begin: int) -> str:
    """Returns what stands after the value that begins there: a comment with the space before it, mostly nothing."""
    for at in (found.start() for found in re.finditer("#", line[begin:])):
        value = line[begin : begin + at]
        try:
            tomllib.loads(f"x = {value}")
        except tomllib.TOMLDecodeError:
            continue  # a # inside a text
        return value[len(value.rstrip()) :] + line[begin + at :]
    return "\r" if line.endswith("\r") else ""


def _set(document: dict[str, Any], path: KeyPath, value: object) -> None:
    *tables, name = path
    for table in tables:
        document = document.setdefault(table, {})
    document[name] = deepcopy(value)
