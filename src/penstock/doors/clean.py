"""Cleans an input: what is refused, or stripped from it, before it is queued. `inputs.py` asks for every input of
every door, and for parameters and whole bodies. Only bytes are looked at, and nothing is kept.

The decoder has checked that the JSON is well formed. Here the payload's bytes are looked at without decoding them.
A mebibyte must not hold up other clients, whatever is in it. So each check of a large payload goes piece by piece,
the event loop can turn in between, and a piece takes a few calls that run over its bytes at the speed of C."""

import re

import msgspec

from penstock.doors.depth import is_deeper, outside_strings
from penstock.doors.steps import PIECE, Steps, pieces
from penstock.errors import Unacceptable

# An escaped control character; in JSON text it can only stand escaped. DEL and the C1 set may stand as they are.
_ESCAPED = re.compile(rb"\\(?:[bf]|u00(?:0[0-8bBcCeEfF]|1[0-9a-fA-F]|7[fF]|[89][0-9a-fA-F]))")
_C1 = re.compile(rb"\xc2[\x80-\x9f]")
_RUNS_OF_C1 = re.compile(rb"(?:\xc2[\x80-\x9f])+")
_SHORT = {b"\\b": 0x08, b"\\f": 0x0C}
_DIGITS = bytes.maketrans(b"0123456789E", b"0000000000e")
# No ordinary number has so many digits in a row. A number that no float can hold has at least 210, if its exponent
# has two digits and so moves the point by at most 99 places.
_MANY_DIGITS = b"0" * 200
_NUMBER = re.compile(rb"-?[0-9][0-9.eE+-]*")
_OF_NUMBERS = b"0123456789.eE+-"
LONGEST_NUMBER = 64 * 1024  # characters; a longer number is refused before its end is found
_PLACEHOLDER = b"\x00"  # stands in no JSON
MOST_PLACES = 50_000  # places where something is stripped; each costs a little time


def check_unicode(body: bytes) -> None:
    try:
        body.decode()
    except UnicodeDecodeError as exc:
        raise Unacceptable(f"the body is not UTF-8: byte {exc.start} is invalid") from None


def decode(payload: bytes, field: str) -> object:
    """Returns the value of a part of the body that the first decoder skipped. Raises Unacceptable, for example for
    a number like 1e999."""
    try:
        return msgspec.json.decode(payload)
    except msgspec.DecodeError as exc:
        raise Unacceptable(f"{field!r} cannot be read: {str(exc).partition(' - ')[0]}") from None


def is_harmless(payload: bytes, limit: int) -> bool:
    """Whether a small payload can neither be nested too deeply nor have a number that is too large."""
    return payload.count(b"[") + payload.count(b"{") <= limit and not _may_be_huge(payload)


def check_numbers(payload: bytes, field: str = "input", size: int = PIECE) -> Steps[None]:
    """Refuse numbers that a worker's decoder cannot read, such as 1e999 or an integer of 5,000 digits. The body's
    decoder has not looked at their size. Only a payload with an exponent of three digits, or with very many digits
    in a row, can have such a number. Strings may hold such digits too, in hashes for example, and do not matter."""
    if not (yield from _may_have_huge(payload, size)):
        return
    unfinished, inside = b"", False
    for piece in pieces(payload, size):
        outside, inside = outside_strings(piece, inside)
        text = unfinished + outside
        finished = len(text.rstrip(_OF_NUMBERS))
        unfinished = text[finished:]
        _read_numbers(text[:finished], field)
        if len(unfinished) > LONGEST_NUMBER:
            raise Unacceptable(f"{field!r} cannot be read: a number of more than {LONGEST_NUMBER} characters")
        yield
    _read_numbers(unfinished, field)


def _may_have_huge(payload: bytes, size: int) -> Steps[bool]:
    for start in range(0, len(payload), size):
        # The digits that make a number huge may lie on both sides of a border between two pieces.
        if _may_be_huge(payload[max(0, start - len(_MANY_DIGITS)) : start + size]):
            return True
        yield
    return False


def _may_be_huge(text: bytes) -> bool:
    if len(text) < len(_MANY_DIGITS) and b"e" not in text and b"E" not in text:
        return False
    marks = text.translate(_DIGITS, b"+")
    return b"e000" in marks or _MANY_DIGITS in marks


def _read_numbers(text: bytes, field: str) -> None:
    """Read the numbers in a text without strings. They are read as one flat list, because to build the lists and
    objects around them takes long."""
    if _may_be_huge(text):
        decode(b"[%b]" % b",".join(_NUMBER.findall(text)), field)


def check_depth(
    payload: bytes, limit: int, field: str = "input", setting: str = "limits.max_depth", size: int = PIECE
) -> Steps[None]:
    """Refuse a payload that is nested too deeply. `setting`: the name of the limit; empty if it is fixed."""
    if _may_be_deeper(payload, limit, size) and (yield from is_deeper(payload, limit, size)):
        why = f", which {setting} is" if setting else ""
        raise Unacceptable(f"{field!r} is nested deeper than {limit} levels{why}")


def _may_be_deeper(payload: bytes, limit: int, size: int) -> bool:
    """Whether a payload may be nested more deeply than the limit: whether it has more opening brackets than that.
    To count them takes so little time that it is one step."""
    opening = 0
    for start in range(0, len(payload), size):
        end = start + size
        opening += payload.count(b"[", start, end) + payload.count(b"{", start, end)
        if opening > limit:
            return True
    return False


def clean_controls(payload: bytes, rule: str, size: int = PIECE) -> Steps[bytes]:
    """Returns the payload without control characters, or refuses it, by the `rule`: allow, refuse or strip. Tab,
    newline and carriage return are text."""
    if rule == "allow":
        return payload
    for piece in pieces(payload, size):
        found = find_control(piece)
        if found is None:
            yield
        elif rule == "refuse":
            raise Unacceptable(
                f"'input' holds the control character U+{found:04X}: remove it; limits.control_characters can"
                " let the server strip or allow them"
            )
        else:
            return (yield from _without_controls(payload, size))
    return payload


def find_control(payload: bytes) -> int | None:
    """Returns the number of a control character in the payload; None if it has none."""
    if b"\\" in payload:
        # Without the escaped backslashes, each backslash that is left begins an escape.
        match = _ESCAPED.search(payload.replace(b"\\\\", b""))
        if match is not None:
            return _SHORT.get(match[0]) or int(match[0][2:], 16)
    if b"\x7f" in payload:
        return 0x7F
    if not payload.isascii():
        match = _C1.search(payload)
        if match is not None:
            return match[0][1]
    return None


def _without_controls(payload: bytes, size: int) -> Steps[bytes]:
    kept, places = [], 0
    for piece in pieces(payload, size):
        text, escaped, plain = piece.translate(None, b"\x7f"), 0, 0
        if b"\\" in text:
            text = text.replace(b"\\\\", _PLACEHOLDER)
            text, escaped = _ESCAPED.subn(b"", text)
            text = text.replace(_PLACEHOLDER, b"\\\\")
        if not text.isascii():
            text, plain = _RUNS_OF_C1.subn(b"", text)
        kept.append(text)
        places += escaped + plain
        if places > MOST_PLACES:
            raise Unacceptable(f"'input' holds more than {MOST_PLACES} control characters: this is no text")
        yield
    return b"".join(kept)
