"""Groups of options: a class whose attributes are options, shared by several commands. `options.py` has the groups;
`serve.py`, `roles.py` and `up.py` take them.

class Clients:
    '''Clients'''  # the title of the group in the help

    auth = setting(str, "auth.mode", about="Who may ask.")

@takes(Clients)
def gateway(given: GivenOptions) -> int: ...

Typer makes a command's options of the signature and the annotations of its function. `takes` writes both anew, with
the options of the groups in place of `given`.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any, get_args

import typer

Group = type[Any]  # its attributes were made by `setting`


@dataclass(frozen=True, slots=True)
class Key:
    """What an option sets: a key of the configuration."""

    name: str
    # Makes the value from the text, if the configuration itself cannot read the text.
    read: Callable[[Any], object] | None


def setting(
    kind: Any,
    key: str,
    *names: str,
    default: str | bool = False,
    read: Callable[[Any], object] | None = None,
    about: str,
) -> Any:
    """Returns an option for one key of the configuration. `default`: what the help shows as its default."""
    return Annotated[kind | None, typer.Option(*names, show_default=default, help=about), Key(key, read)]


def _options(group: Group) -> Iterator[tuple[str, Any]]:
    """Returns the options of a group by name. Each is an Annotated[its type, Typer's description, its Key], which
    `setting` made."""
    return ((name, kind) for name, kind in vars(group).items() if get_args(kind))


@dataclass(frozen=True, slots=True)
class GivenOptions:
    """The values that a command line gave to the options of some groups."""

    values: dict[str, Any]  # by the option's name; None for one that was not given
    groups: tuple[Group, ...]

    def overrides(self, **others: object) -> dict[str, object]:
        """Returns the values for `config.load`, by key. `others`: further keys, with __ for the dot."""
        keys: dict[str, object] = {}
        for group in self.groups:
            for name, kind in _options(group):
                key, value = get_args(kind)[2], self.values[name]
                if value is not None or key.name not in keys:  # two options may set one key
                    keys[key.name] = key.read(value) if key.read is not None and value is not None else value
        return keys | {key.replace("__", "."): value for key, value in others.items()}

    def as_arguments(self, *groups: Group, but: Sequence[str] = ()) -> list[str]:
        """Returns the options of these groups as arguments of a command line for another process. `but`: options
        that are left out."""
        arguments: list[str] = []
        for group in groups:
            for name, kind in _options(group):
                value = self.values[name]
                if value is None or name in but:
                    continue
                option = next(iter(_info(kind).param_decls or ()), f"--{name.replace('_', '-')}")
                for each in value if isinstance(value, list) else [value]:
                    arguments += [option] if each is True else [option, str(each)]
        return arguments


def _info(kind: Any) -> Any:
    """Returns Typer's description of an option. In `Annotated`, Typer has the option's first name in `default`."""
    info = copy(get_args(kind)[1])
    if info.default is not ...:
        info.param_decls = (info.default, *(info.param_decls or ()))
        info.default = ...
    return info


def takes(*groups: Group) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Returns a decorator that adds the options of these groups to a command, in place of its parameter `given`."""

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        added = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_titled(kind, group)
            )
            for group in groups
            for name, kind in _options(group)
        ]
        parameters: list[inspect.Parameter] = []
        for own in inspect.signature(command).parameters.values():
            parameters += added if own.name == "given" else [own.replace(kind=inspect.Parameter.KEYWORD_ONLY)]

        @wraps(command)
        def with_options(**values: Any) -> int:
            said = {parameter.name: values.pop(parameter.name) for parameter in added}
            # Typer gives an empty list for an option that takes a list and was not given.
            said = {name: None if value == [] else value for name, value in said.items()}
            return command(**values, given=GivenOptions(said, groups))

        # A function may have any attribute, but its type does not say so.
        with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        with_options.__annotations__ = {each.name: each.annotation for each in parameters}
        return with_options

    return decorate


def _titled(kind: Any, group: Group) -> Any:
    """Returns the option, to be shown under its group's title in the help."""
    info = copy(get_args(kind)[1])
    info.rich_help_panel = group.__doc__
    return Annotated[get_args(kind)[0], info]
