"""What the standard library's reader of TOML lacks: the line of each key, and how a value is written.

The other modules of this folder name the line of a mistake by it, and show values as they would stand in a file; so
do the commands that change a file (`cli/apply.py`, `cli/tune.py`). Pure.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time

KeyPath = tuple[str, ...]


def key_lines(text: str) -> dict[KeyPath, int]:
    """Returns the line on which each key and table of a valid document begins.

    `tomllib` does not tell lines. But each statement of a document (a header, or a key and its value) is a document
    too. So lines are gathered until they parse, and the keys in them stand where the first of these lines is.
    """
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    began, statement = 1, ""
    for number, line in enumerate(text.split("\n"), start=1):
        statement += line + "\n"
        try:
            content = tomllib.loads(statement)
        except tomllib.TOMLDecodeError:
            continue  # a value that goes on in the next line
        paths = list(_paths(content))
        if statement.lstrip().startswith("["):
            table = paths[-1]
            lines.setdefault(table, began)
        else:
            for path in paths:
                lines[table + path] = began
        began, statement = number + 1, ""
    return lines


def _paths(content: Mapping[str, object], above: KeyPath = ()) -> Iterator[KeyPath]:
    for key, value in content.items():
        yield (*above, key)
        if isinstance(value, dict):
            yield from _paths(value, (*above, key))


def toml(value: object) -> str:
    """Returns a value as TOML, on one line."""
    if isinstance(value, str):
        if '"' in value and "'" not in value and value.isprintable():
            return f"'{value}'"
        # JSON's escapes are TOML's, except that TOML escapes DEL too.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{_key(key)} = {toml(item)}" for key, item in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml(item) for item in value)}]"
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return repr(value)


def dotted(path: KeyPath) -> str:
    """Returns a path as one text such as `models.x.max_batch`, with quotes where TOML needs them."""
    return ".".join(_key(part) for part in path)


def _key(key: str) -> str:
    plain = key.isascii() and key.replace("-", "a").replace("_", "a").isalnum()
    return key if plain else toml(key)
