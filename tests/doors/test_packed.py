"""Inputs in MessagePack: what has no bytes in it is the JSON it could have been, and poison stops at the door."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.doors import packed
from penstock.doors.packed import AT_ONCE, MOST_PARTS, input_of, parameters_of
from penstock.doors.steps import at_once
from penstock.errors import Unacceptable
from penstock.payload import is_json, told, value_of

NUMBERS = st.one_of(st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False))
PLAIN = st.one_of(st.none(), st.booleans(), NUMBERS, st.text())


def nested(leaves: "st.SearchStrategy[Any]") -> "st.SearchStrategy[Any]":
    return st.recursive(
        leaves, lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)), max_leaves=20
    )


def payload_of(value: object, *, depth: int = 64, controls: str = "allow") -> bytes:
    return at_once(input_of(msgspec.msgpack.encode(value), depth, controls))


@given(nested(PLAIN))
def test_what_has_no_bytes_in_it_goes_on_as_json(value: Any) -> None:
    assert payload_of(value) == msgspec.json.encode(value)


@given(nested(st.one_of(PLAIN, st.binary())))
def test_the_function_is_called_with_what_was_sent(value: Any) -> None:
    payload = payload_of(value)
    if is_json(payload):
        value = msgspec.json.decode(msgspec.json.encode(value))  # where 1e0 and 1.0 are the same
    assert value_of(payload) == value


@pytest.mark.parametrize("size", [0, 31, 32, 255, 256, 65535, 65536])
def test_texts_bytes_arrays_and_maps_of_every_length(size: int) -> None:
    for value in ("x" * size, b"x" * size, ["x"] * size, {str(n): b"x" for n in range(min(size, 300))}):
        assert value_of(payload_of([value, 1])) == [value, 1]


def test_maps_of_the_longest_kind() -> None:
    sent = b"\xdf\x00\x00\x00\x01\xa1a\xc4\x01x"  # no encoder writes a short one so
    assert value_of(at_once(input_of(sent, 64, "refuse"))) == {"a": b"x"}


def test_floats_of_four_bytes() -> None:
    assert at_once(input_of(b"\xca\x3f\x00\x00\x00", 64, "allow")) == b"0.5"


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"\xcb\x7f\xf0" + bytes(6), "not finite"),
        (b"\xca\x7f\xc0\x00\x00", "not finite"),
        (msgspec.msgpack.encode([[[1]]]), "deeper than 2 levels"),
        (msgspec.msgpack.encode({"a": {"b": {"c": 1}}}), "deeper than 2 levels"),
        (msgspec.msgpack.encode({1: 2}), "not a string"),
        (msgspec.msgpack.encode(msgspec.msgpack.Ext(1, b"x")), "extensions"),
        (msgspec.msgpack.encode([b"x", "\x07"]), "control character"),
        (msgspec.msgpack.encode([b"x", "\x85"]), "control character"),
        (msgspec.msgpack.encode([None] * MOST_PARTS), "more than 100000 parts"),
    ],
)
def test_poison_is_refused(sent: bytes, why: str) -> None:
    with pytest.raises(Unacceptable, match=why):
        at_once(input_of(sent, 2, "strip"))


def test_a_value_of_many_parts_is_walked_through_in_steps() -> None:
    steps = sum(1 for _ in input_of(msgspec.msgpack.encode([0] * (MOST_PARTS - 1)), 64, "refuse"))
    assert steps == MOST_PARTS // AT_ONCE


def test_bytes_alone_and_control_characters_that_are_allowed_go_on() -> None:
    assert payload_of(b"\x07", controls="refuse") == b"\x00\x07"
    assert value_of(payload_of([b"", "\x07"], controls="allow")) == [b"", "\x07"]


def test_parameters_are_json() -> None:
    assert at_once(parameters_of(msgspec.msgpack.encode({"k": 1}), 64)) == b'{"k":1}'
    with pytest.raises(Unacceptable, match="can be JSON only"):
        at_once(parameters_of(msgspec.msgpack.encode({"k": b"x"}), 64))


def test_people_are_told_bytes_in_base64() -> None:
    assert told(b'{"a":1}') == {"input": '{"a":1}'}
    assert told(b"\x00\xff") == {"input": "/w==", "input_encoding": "base64"}
    assert told(payload_of([b"x"]))["input_encoding"] == "base64 of MessagePack"
    assert told(b"") == {"input": ""}


def test_every_first_byte_is_known_or_refused() -> None:
    for first in range(256):
        sent = bytes([first]) + bytes(20)
        walk = packed.Walk(sent, 64, "input")
        try:
            at_once(walk.steps())
        except Unacceptable:
            assert first in (0xC1, *range(0xC7, 0xCA), *range(0xD4, 0xD9)) or 0x81 <= first < 0x90
