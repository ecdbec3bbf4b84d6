"""Clean input (SPEC D6): what is refused or stripped before anything is queued.

The decoder has seen to it that the JSON is well formed; here the payload's bytes are looked at without decoding
them, since nearly all are plain, and only the suspicious are looked at closely.
"""

import re

import msgspec

from penstock.errors import Unacceptable

# In JSON text a control character can only stand escaped; DEL and the C1 set may stand as they are.
_ESCAPED = re.compile(rb"\\u00(?:[01][0-9a-fA-F]|7[fF]|[89][0-9a-fA-F])|\\[bf]")
_HARMLESS = re.compile(rb"\\u00(?:09|0[aAdD])")
_RAW = re.compile(rb"\x7f|\xc2[\x80-\x9f]")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
LONG = 309  # digits of the least integer that is larger than any float
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|([\[{])|([\]}])', re.S)


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
    integer of 5,000 digits. Reading them is quicker than looking for them. A short payload without an exponent has
    no such number."""
    if len(payload) >= LONG or b"e" in payload or b"E" in payload:
        decode(payload, field)


def check_depth(payload: bytes, limit: int, field: str = "input", setting: str = "limits.max_depth") -> None:
    """`setting`: the name of the limit, or nothing for one that is fixed."""
    if payload.startswith(b'"') or payload.count(b"[") + payload.count(b"{") <= limit:
        return
    depth = 0
    for match in _BRACKETS.finditer(payload):
        if match[1]:
            depth += 1
            if depth > limit:
                why = f", which {setting} is" if setting else ""
                raise Unacceptable(f"{field!r} is nested deeper than {limit} levels{why}")
        elif match[2]:
            depth -= 1


def clean_controls(payload: bytes, rule: str) -> bytes:
    """The payload without control characters; tab, newline and carriage return are text."""
    if rule == "allow" or not _suspicious(payload):
        return payload
    value = decode(payload, "input")
    found: list[str] = []
    cleaned = _strip(value, found)
    if not found:
        return payload
    if rule == "refuse":
        raise Unacceptable(
            f"'input' holds the control character U+{ord(found[0]):04X}: remove it; limits.control_characters can"
            " let the server strip or allow them"
        )
    return msgspec.json.encode(cleaned)


def _suspicious(payload: bytes) -> bool:
    if b"\\" in payload:
        for match in _ESCAPED.finditer(payload):
            if not _HARMLESS.fullmatch(match[0]):
                return True
    if payload.isascii():
        return b"\x7f" in payload
    return _RAW.search(payload) is not None


def _strip(value: object, found: list[str]) -> object:
    match value:
        case str():
            found += _CONTROL.findall(value)
            return _CONTROL.sub("", value)
        case list():
            return [_strip(item, found) for item in value]
        case dict():
            return {_strip(key, found): _strip(item, found) for key, item in value.items()}
    return value
