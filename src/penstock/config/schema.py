"""What may stand where, read off the sections themselves."""

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


Place = Key | Table | NamedTables


def places(section: type[Any]) -> Mapping[str, Place]:
    """The keys and tables of a section, in the order they are written there."""
    hints = get_type_hints(section, include_extras=True)
    found: dict[str, Place] = {}
    for item in fields(section):
        hint = hints[item.name]
        if get_origin(hint) is Annotated:
            required = item.default is MISSING and item.default_factory is MISSING
            found[item.name] = Key(hint.__metadata__[0], required)
        elif isinstance(hint, type) and is_dataclass(hint):
            found[item.name] = Table(hint)
        elif is_dataclass(get_args(hint)[-1]):
            found[item.name] = NamedTables(get_args(hint)[-1])
    return found


def key_paths(section: type[Any], content: Mapping[str, Any], above: KeyPath = ()) -> Iterator[KeyPath]:
    """Every key that could be set, given the names that `content` uses for its tables."""
    for name, place in places(section).items():
        here, inside = (*above, name), content.get(name, {})
        match place:
            case Key():
                yield here
            case Table(inner):
                yield from key_paths(inner, inside, here)
            case NamedTables(inner):
                for entry in inside:
                    yield from key_paths(inner, inside[entry], (*here, entry))


def did_you_mean(word: str, known: Mapping[str, object] | list[str]) -> str:
    """A clause to end a refusal with."""
    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
