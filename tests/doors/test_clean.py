"""What is told from the bytes of a payload is what its value would have told."""

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.doors import clean
from penstock.doors.clean import LONGEST_NUMBER, MOST_PLACES
from penstock.doors.depth import is_deeper
from penstock.doors.steps import PIECE, at_once, pieces
from penstock.errors import Unacceptable

ESCAPE = re.compile(rb"\\(?:u[0-9a-f]{4}|[^u])")
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
# Brackets, quotes, escapes, and every kind of control character, side by side.
TEXT = st.text(alphabet='ab[]{}"\\/u01fbn\n\t\r\b\f\x00\x01\x1f\x7f\x80\x9f\xa0\xe9😀', max_size=12)
VALUES = st.recursive(
    st.none() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=24,
)
SIZES = st.integers(8, 40) | st.just(PIECE)  # of the pieces, so that anything may stand at a border


def check_depth(payload: bytes, limit: int, size: int = PIECE) -> None:
    at_once(clean.check_depth(payload, limit, size=size))


def check_numbers(payload: bytes, size: int = PIECE) -> None:
    at_once(clean.check_numbers(payload, size=size))


def clean_controls(payload: bytes, rule: str, size: int = PIECE) -> bytes:
    return at_once(clean.clean_controls(payload, rule, size))


def spelt(value: Any, ascii_only: bool) -> bytes:
    return json.dumps(value, ensure_ascii=ascii_only).encode()


def nesting(value: Any) -> int:
    match value:
        case list():
            return 1 + max(map(nesting, value), default=0)
        case dict():
            return 1 + max(map(nesting, value.values()), default=0)
    return 0


def stripped(value: Any) -> Any:
    match value:
        case str():
            return CONTROL.sub("", value)
        case list():
            return [stripped(item) for item in value]
        case dict():
            return {stripped(key): stripped(item) for key, item in value.items()}
    return value


@given(VALUES, st.booleans(), SIZES)
def test_pieces_are_small_are_the_whole_and_part_no_escape(value: Any, ascii_only: bool, size: int) -> None:
    payload = spelt(value, ascii_only)
    cut = list(pieces(payload, size))
    assert b"".join(cut) == payload
    assert max(map(len, cut)) <= size
    # Where an escape is parted, one half of it is none, and two halves are not what the whole was.
    assert sum(len(ESCAPE.findall(piece)) for piece in cut) == len(ESCAPE.findall(payload))
    assert not any(piece.endswith(b"\xc2") for piece in cut)


@given(VALUES, st.booleans(), SIZES)
def test_the_depth_is_that_of_the_value(value: Any, ascii_only: bool, size: int) -> None:
    payload, depth = spelt(value, ascii_only), nesting(value)
    assert not at_once(is_deeper(payload, depth, size))
    assert at_once(is_deeper(payload, depth - 1, size))


@given(st.integers(1, 80), st.integers(0, 40), SIZES)
def test_a_payload_is_refused_from_one_level_beyond_the_limit(levels: int, before: int, size: int) -> None:
    payload = b"[" + b'{"]":[]},' * before + b"[" * (levels - 1) + b"]" * levels
    check_depth(payload, max(levels, 3), size)
    if levels > 3:
        with pytest.raises(Unacceptable, match="nested deeper than"):
            check_depth(payload, levels - 1, size)


@given(VALUES, st.booleans(), SIZES)
def test_control_characters_are_found_and_stripped_wherever_they_stand(
    value: Any, ascii_only: bool, size: int
) -> None:
    payload, wanted = spelt(value, ascii_only), stripped(value)
    assert json.loads(clean_controls(payload, "strip", size)) == wanted
    assert clean_controls(payload, "allow", size) == payload
    if wanted == value:
        assert clean_controls(payload, "refuse", size) == payload
    else:
        with pytest.raises(Unacceptable, match=r"U\+00[0189][0-9A-F]|U\+007F"):
            clean_controls(payload, "refuse", size)


@pytest.mark.parametrize(
    ("one", "shown"),
    [("\\b", "0008"), ("\\f", "000C"), ("\\u001F", "001F"), ("\x7f", "007F"), ("\x9f", "009F")],
)
def test_a_refusal_names_the_character(one: str, shown: str) -> None:
    with pytest.raises(Unacceptable, match=rf"U\+{shown}"):
        clean_controls(f'"\\\\{one}"'.encode(), "refuse")


@given(
    st.integers(1, 5000), st.sampled_from(["", ".5", ".0"]), st.sampled_from(["", "e", "E+", "e-", "e0"]),
    st.integers(0, 400), st.sampled_from(["%s", "[%s]", '{"a": -%s}', '["e100", %s]', '[true, "7", %s, 1]']),
    SIZES,
)  # fmt: skip
def test_a_number_is_refused_if_and_only_if_it_cannot_be_read(
    digits: int, fraction: str, exponent: str, power: int, place: str, size: int
) -> None:
    number = "7" * digits + fraction + (f"{exponent}{power}" if exponent else "")
    payload = (place % number).encode()
    try:
        msgspec.json.decode(payload)
    except msgspec.DecodeError:
        with pytest.raises(Unacceptable, match="'input' cannot be read"):
            check_numbers(payload, size)
    else:
        check_numbers(payload, size)


def test_a_number_without_end_is_refused_before_its_end() -> None:
    with pytest.raises(Unacceptable, match="a number of more than 65536 characters"):
        check_numbers(b"[0." + b"0" * (2 * LONGEST_NUMBER + PIECE) + b"1]")


@pytest.mark.parametrize("unit", ["\\u0001a", "\x85a"])
def test_what_is_mostly_control_characters_is_refused_even_where_they_are_stripped(unit: str) -> None:
    assert clean_controls(f'"{unit * MOST_PLACES}"'.encode(), "strip") == b'"' + b"a" * MOST_PLACES + b'"'
    with pytest.raises(Unacceptable, match="this is no text"):
        clean_controls(f'"{unit * (MOST_PLACES + 1)}"'.encode(), "strip")
