"""Checks what an input may be, whichever door it comes through: kind, depth, numbers, control characters. Also
reads bodies and parameters. Doors that take inputs call it for each of them (`native.py`, `tei.py`)."""

from functools import lru_cache
from typing import TypeVar

import msgspec

from penstock.doors import clean
from penstock.doors.door import Inside
from penstock.doors.steps import Steps, at_once
from penstock.doors.wrong_body import in_words
from penstock.errors import Unacceptable
from penstock.ports import Gateway

MOST_PARAMETERS = 16 * 1024  # bytes
# Bytes. Longer parameters are read each time, so that the memory of read ones stays small.
REMEMBERED_PARAMETERS = 1024
DEEPEST_PARAMETERS = 64  # levels

QUOTE, BACKSLASH, DELETE = b'"\\\x7f'  # numbers: to search bytes for a number takes a fifth of the time

Body = TypeVar("Body", bound=msgspec.Struct)


class Inputs:
    """Checks inputs by the limits of this server."""

    def __init__(self, gateway: Gateway, *, max_depth: int, control_characters: str) -> None:
        self._kind_of = gateway.kind_of
        self._max_depth = max_depth
        self._controls = control_characters

    def check(self, payload: bytes, model: str | None, *, ascii_only: bool) -> bytes:
        """Check a small payload at once, as `check_in_steps` does. Most need no steps, because a quick look shows
        that they are harmless."""
        kind = self._kind_of(model)
        if payload[0] == QUOTE or (kind != "text" and clean.is_harmless(payload, self._max_depth)):
            if ascii_only and BACKSLASH not in payload and DELETE not in payload:
                return payload
            if clean.find_control(payload) is None:
                return payload
        return at_once(self.check_in_steps(payload, model, ascii_only=ascii_only))

    def check_in_steps(self, payload: bytes, model: str | None, *, ascii_only: bool) -> Steps[bytes]:
        """Check a payload. Returns it as it goes on to the model. `ascii_only`: whether its body is all ASCII."""
        if self._kind_of(model) == "text":
            if not payload.startswith(b'"'):
                raise Unacceptable("'input' must be a string: this model takes text")
        elif payload[0] != QUOTE:  # a string is not nested
            yield from clean.check_depth(payload, self._max_depth)
            yield from clean.check_numbers(payload)
        if ascii_only and BACKSLASH not in payload and DELETE not in payload:
            return payload  # no control character can be in it
        return (yield from clean.clean_controls(payload, self._controls))


def inputs_of(inside: Inside) -> Inputs:
    limits = inside.limits
    return Inputs(inside.gateway, max_depth=limits.max_depth, control_characters=limits.control_characters)


def check_unicode(body: bytes) -> Steps[bool]:
    """Refuse a body that is not UTF-8. Returns whether it is all ASCII."""
    ascii_only = body.isascii()
    if not ascii_only:
        clean.check_unicode(body)
        yield
    return ascii_only


def decode(decoder: "msgspec.json.Decoder[Body]", body: bytes, *, is_unicode: bool) -> Body:
    """Read a body. `is_unicode`: whether it is known to be UTF-8."""
    if not is_unicode:
        clean.check_unicode(body)
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise in_words(exc, decoder.type.__struct_fields__) from None


def canonical(parameters: bytes) -> bytes:
    """Returns equal parameters as equal bytes, so that they can share a lane."""
    return _remembered(parameters) if len(parameters) <= REMEMBERED_PARAMETERS else _read(parameters)


def _read(parameters: bytes) -> bytes:
    if len(parameters) > MOST_PARAMETERS:
        raise Unacceptable(f"'parameters' are longer than {MOST_PARAMETERS} bytes")
    at_once(clean.check_depth(parameters, DEEPEST_PARAMETERS, "parameters", ""))
    value = clean.decode(parameters, "parameters")
    if value is None:
        return b""
    if not isinstance(value, dict):
        raise Unacceptable("'parameters' must be an object")
    return msgspec.json.encode(value, order="sorted") if value else b""


_remembered = lru_cache(maxsize=1024)(_read)
