"""Which keys and tables a section of penstock.toml has, read off the dataclasses in `sections`.

Whatever goes through all keys asks this: reading the layers (`layers`), building the sections (`load`), explaining
where a value came from (`config`), taking over a changed configuration (`changes`), and checking a model that a
worker has announced (`cluster/announcements.py`). `consistency` asks it for similar words.
"""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from difflib import get_close_matches
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from penstock.config.kinds import Kind
from penstock.config.toml import KeyPath


@dataclass(frozen=True, slots=True)
class Key:
    """A key with a value."""

    kind: Kind
    required: bool


@dataclass(frozen=True, slots=True)
class Table:
    """A section inside a section: [models.x.http]."""

    section: type[Any]


@dataclass(frozen=True, slots=True)
class NamedTables:
    """Sections under names the user chooses: [models.x], [models.y]."""

    section: type[Any]


Item = Key | Table | NamedTables


def items(section: type[Any]) -> Mapping[str, Item]:
    """Returns the keys and tables of a section, in the order they are written there."""
    hints = get_type_hints(section, include_extras=True)
    found: dict[str, Item] = {}
    for each in fields(section):
        hint = hints[each.name]
        if get_origin(hint) is Annotated:
            required = each.default is MISSING and each.default_factory is MISSING
            found[each.name] = Key(hint.__metadata__[0], required)
        elif isinstance(hint, type) and is_dataclass(hint):
            found[each.name] = Table(hint)
        elif is_dataclass(get_args(hint)[-1]):
            found[each.name] = NamedTables(get_args(hint)[-1])
    return found


def key_paths(section: type[Any], content: Mapping[str, Any], above: KeyPath = ()) -> Iterator[KeyPath]:
    """Yields every key that could be set, given the names that `content` uses for its tables."""
    for name, item in items(section).items():
        here, inside = (*above, name), content.get(name, {})
        match item:
            case Key():
                yield here
            case Table(inner):
                yield from key_paths(inner, inside, here)
            case NamedTables(inner):
                for chosen in inside:
                    yield from key_paths(inner, inside[chosen], (*here, chosen))


def did_you_mean(word: str, known: Mapping[str, object] | list[str], common: int = 0) -> str:
    """Returns a clause for the end of a refusal; empty unless a known word is similar. `common`: how many
    characters at the beginning all known words share; these are not compared."""
    close = get_close_matches(word[common:], [each[common:] for each in known], n=1)
    return f"; did you mean '{word[:common]}{close[0]}'?" if close else ""
