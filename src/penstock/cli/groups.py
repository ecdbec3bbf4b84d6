"""Groups of options: a class whose attributes are options, shared by several commands.

class Clients:
    '''Clients'''  # the title of the group in the help

    auth = setting(str, "auth.mode", about="Who may ask.")

@takes(Clients)
def gateway(given: GivenOptions) -> int: ...

The groups are in `options`, and the commands take them. Typer makes a command's options of the signature and the
annotations of its function: `takes` writes both anew, with the options of the groups in place of `given`.
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
    # Makes the value, where the configuration itself cannot read the text.
    read: Callable[[Any], object] | None


def setting(
    kind: Any,
    key: str,
    *names: str,
    default: str | bool = False,
    read: Callable[[Any], object] | None = None,
    about: str,
) -> Any:
    """An option for one key of the configuration; `default` is how the help shows what holds without it."""
    return Annotated[kind | None, typer.Option(*names, show_default=default, help=about), Key(key, read)]


def _options(group: Group) -> Iterator[tuple[str, Any]]:
    """What `setting` made, by name: each an Annotated[its type, Typer's description, its Key]."""
    return ((name, kind) for name, kind in vars(group).items() if get_args(kind))


@dataclass(frozen=True, slots=True)
class GivenOptions:
    """The values that a command line gave to the options of some groups."""

    values: dict[str, Any]  # by the option's name; None for one that was not given
    groups: tuple[Group, ...]

    def overrides(self, **others: object) -> dict[str, object]:
        """The values for `config.load`, by key; `others` are keys too, with __ for the dot."""
        keys: dict[str, object] = {}
        for group in self.groups:
            for name, kind in _options(group):
                key, value = get_args(kind)[2], self.values[name]
                if value is not None or key.name not in keys:  # two options may set one key
                    keys[key.name] = key.read(value) if key.read is not None and value is not None else value
        return keys | {key.replace("__", "."): value for key, value in others.items()}

    def as_arguments(self, *groups: Group, but: Sequence[str] = ()) -> list[str]:
        """The options of these groups, without some, as arguments of a command line for another process."""
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
    """Typer's description of an option. In `Annotated` its first name comes as the default."""
    info = copy(get_args(kind)[1])
    if info.default is not ...:
        info.param_decls = (info.default, *(info.param_decls or ()))
        info.default = ...
    return info


def takes(*groups: Group) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Adds the options of these groups to a command, in place of its parameter `given`."""

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
            # An option that takes a list has an empty one where it was not given.
            said = {name: None if value == [] else value for name, value in said.items()}
            return command(**values, given=GivenOptions(said, groups))

        # A function takes any attribute, which its type does not say.
        with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        with_options.__annotations__ = {each.name: each.annotation for each in parameters}
        return with_options

    return decorate


def _titled(kind: Any, group: Group) -> Any:
    """The option under its group's title in the help."""
    info = copy(get_args(kind)[1])
    info.rich_help_panel = group.__doc__
    return Annotated[get_args(kind)[0], info]
