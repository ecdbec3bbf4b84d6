"""Options of other servers' clients, such as `dimensions`, as parameters for the model. The doors for those clients
hand theirs over (`embeddings.py`, `completions.py`, `tei.py`).

An option goes on to the model only if it differs from what is usual, because clients often send what changes
nothing, and a model that takes no parameters would refuse that too.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from penstock.doors.inputs import canonical
from penstock.doors.openapi_parts import Part
from penstock.errors import Unacceptable

LARGEST = 2**31 - 1


class Option(NamedTuple):
    """One option."""

    usual: tuple[object, ...]  # values that change nothing
    otherwise: Part  # the schema of all its values


Options = Mapping[str, Option]


def parameters_of(said: msgspec.Struct, options: Options) -> bytes:
    """Returns the options that do not have their usual value, as parameters for the model."""
    given = {name: getattr(said, name) for name in options}
    unusual = {
        name: value for name, value in given.items() if value is not None and value not in options[name].usual
    }
    return canonical(msgspec.json.encode(unusual)) if unusual else b""


def whole(value: float | None, field: str, least: int, most: int = LARGEST) -> int | None:
    """Returns a number as an integer. JSON has one kind of number, so 2e3 is a whole number too."""
    if value is None:
        return None
    if not least <= value <= most or value % 1:
        raise Unacceptable(f"'{field}' must be a whole number from {least} to {most}")
    return int(value)


def schemas_of(options: Options, taken: Sequence[str] | None) -> Part:
    """Returns the schemas of options. `taken`: the parameters that the model takes; None: any. An option that it
    does not take may have its usual value only."""
    return {name: _schema(option, taken is None or name in taken) for name, option in options.items()}


def _schema(option: Option, taken: bool) -> Part:
    if taken:
        return {"anyOf": [option.otherwise, {"type": "null"}]}
    return {"enum": [*option.usual, None]}
