"""Says in plain words what is wrong with a body that msgspec cannot decode. Whatever decodes a body words its
refusal with it (`inputs.py`, `native.py`, `binary.py`).

    Object contains unknown field `inputs`            unknown field 'inputs'; known here: input, model
    Object missing required field `input`             the field 'input' is missing
    Expected `str | null`, got `int` - at `$.model`   'model' must be a string, not a number
    Expected `object`, got `array`                    the body must be a JSON object, not an array
    JSON is malformed: trailing characters (byte 14)  the body is not JSON: trailing characters (byte 14)

Any other message of msgspec is passed on as it is.
"""

import re
from collections.abc import Sequence

import msgspec

from penstock.errors import Malformed, Unacceptable

LONGEST_QUOTE = 200  # characters of a message that may quote what the client sent

_UNKNOWN = re.compile(r"Object contains unknown field `(.*)", re.S)
_MISSING = re.compile(r"Object missing required field `(\w+)`")
_EXPECTED = re.compile(r"Expected `([\w| ]+)`, got `(\w+)`(?: - at `\$\.(.+)`)?")
_AT = re.compile(r"(.+) - at `\$\.(.+)`", re.S)

_CALLED = {
    "str": "a string",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "array": "an array",
    "object": "a JSON object",
    "null": "null",
}


def in_words(exc: Exception, fields: Sequence[str] = (), form: str = "JSON") -> Unacceptable | Malformed:
    """Returns the refusal for a decoder's error. `fields`: those that the body may have."""
    if isinstance(exc, RecursionError):
        return Unacceptable("the body is nested too deeply")
    said = str(exc)[:LONGEST_QUOTE]  # cut, because it may quote the name of a field, which may be very long
    if isinstance(exc, msgspec.ValidationError):
        return Unacceptable(_of_a_field(said, fields))
    if said == "Input data was truncated":
        return Malformed(f"the body is not {form}: it is empty, or ends too early")
    return Malformed(f"the body is not {form}: {said.removeprefix(f'{form} is malformed: ')}")


def _of_a_field(said: str, fields: Sequence[str]) -> str:
    if found := _UNKNOWN.match(said):
        return f"unknown field '{found[1].removesuffix('`')}'; known here: {', '.join(fields)}"
    if found := _MISSING.match(said):
        return f"the field '{found[1]}' is missing"
    if found := _EXPECTED.match(said):
        kinds = dict.fromkeys(_called(kind) for kind in found[1].split(" | ") if kind != "null")
        field = f"'{found[3]}'" if found[3] else "the body"
        return f"{field} must be {' or '.join(kinds)}, not {_called(found[2])}"
    if found := _AT.match(said):
        return f"'{found[2]}': {found[1][:1].lower()}{found[1][1:]}"
    return said


def _called(kind: str) -> str:
    return _CALLED.get(kind, kind)
