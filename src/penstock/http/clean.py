"""Clean input: what is refused or stripped before anything is queued.

The decoder has seen to it that the JSON is well formed. Here the payload's bytes are looked at without decoding
them. A mebibyte of whatever a client likes to send must not hold up the others. So each check is a few calls that
run over all bytes at the speed of C, and none is a loop over what was found.
"""

import re

import msgspec

from penstock.errors import Unacceptable
from penstock.http.depth import depth, outside_strings

# In JSON text a control character can only stand escaped; DEL and the C1 set may stand as they are.
_ESCAPED = re.compile(rb"\\(?:[bf]|u00(?:0[0-8bBcCeEfF]|1[0-9a-fA-F]|7[fF]|[89][0-9a-fA-F]))")
_C1 = re.compile(rb"\xc2[\x80-\x9f]")
_RUNS_OF_C1 = re.compile("[\x80-\x9f]+")
_SHORT = {b"\\b": 0x08, b"\\f": 0x0C}
_DIGITS = bytes.maketrans(b"0123456789E", b"0000000000e")
# With an exponent of two digits, which moves the point by 99 places, the least of what no float can hold has 210.
_MANY_DIGITS = b"0" * 200
MOST_QUOTES = 250_000  # with more, it is quicker to read all than to leave the strings out
_PLACEHOLDER = b"\x00"  # stands in no JSON
MOST_PLACES = 50_000  # where something is stripped; each costs a little time


def check_unicode(body: bytes) -> None:
    try:
        body.decode()
    except UnicodeDecodeError as exc:
        raise Unacceptable(f"the body is not UTF-8: byte {exc.start} is invalid") from None


def decode(payload: bytes, field: str) -> object:
    """The value of a part that has been skipped over once: what is left to go wrong is a number like 1e999."""
    try:
        return msgspec.json.decode(payload)
    except msgspec.DecodeError as exc:
        raise Unacceptable(f"{field!r} cannot be read: {str(exc).partition(' - ')[0]}") from None


def check_numbers(payload: bytes, field: str = "input") -> None:
    """The body's decoder has looked at everything but the size of numbers, and a worker's cannot read 1e999 or an
    integer of 5,000 digits. Only a payload with an exponent of three digits, or with very many digits in a row, can
    have such a number, and is read to find out. Both may stand in strings, such as hashes, which do not matter."""
    if _may_be_huge(payload) and (
        payload.count(b'"') > MOST_QUOTES or _may_be_huge(outside_strings(payload))
    ):
        decode(payload, field)


def _may_be_huge(text: bytes) -> bool:
    if len(text) < len(_MANY_DIGITS) and b"e" not in text and b"E" not in text:
        return False
    marks = text.translate(_DIGITS, b"+")
    return b"e000" in marks or _MANY_DIGITS in marks


def check_depth(payload: bytes, limit: int, field: str = "input", setting: str = "limits.max_depth") -> None:
    """`setting`: the name of the limit, or nothing for one that is fixed."""
    if payload.startswith(b'"') or payload.count(b"[") + payload.count(b"{") <= limit:
        return
    if depth(payload) > limit:
        why = f", which {setting} is" if setting else ""
        raise Unacceptable(f"{field!r} is nested deeper than {limit} levels{why}")


def clean_controls(payload: bytes, rule: str) -> bytes:
    """The payload without control characters; tab, newline and carriage return are text."""
    if rule == "allow":
        return payload
    found = _find_control(payload)
    if found is None:
        return payload
    if rule == "refuse":
        raise Unacceptable(
            f"'input' holds the control character U+{found:04X}: remove it; limits.control_characters can"
            " let the server strip or allow them"
        )
    return _without_controls(payload)


def _find_control(payload: bytes) -> int | None:
    """One of those in it."""
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


def _without_controls(payload: bytes) -> bytes:
    payload, places = payload.translate(None, b"\x7f"), 0
    if b"\\" in payload:
        payload = payload.replace(b"\\\\", _PLACEHOLDER)
        payload, places = _ESCAPED.subn(b"", payload, MOST_PLACES + 1)
        payload = payload.replace(_PLACEHOLDER, b"\\\\")
    if places <= MOST_PLACES and not payload.isascii():
        text, places = _RUNS_OF_C1.subn("", payload.decode(), MOST_PLACES + 1)
        payload = text.encode()
    if places > MOST_PLACES:
        raise Unacceptable(f"'input' holds more than {MOST_PLACES} control characters: this is no text")
    return payload
