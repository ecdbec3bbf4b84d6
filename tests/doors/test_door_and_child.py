"""Whatever the door lets in, the process that runs the function can read: poison ends at the door."""

from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.adapters.backends.reading import decode_json, decode_text
from penstock.doors.schema import Reader
from penstock.edge.heads import NO_HEADERS
from penstock.errors import Malformed, Unacceptable
from penstock.ports import Gateway

DIGITS = st.integers(1, 6000).map(lambda count: "7" * count)
NUMBERS = st.one_of(
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.builds(
        "{}{}{}e{}{}".format,
        st.sampled_from(["", "-"]),
        DIGITS,
        st.sampled_from(["", ".5", ".0"]),
        st.sampled_from(["", "+", "-"]),
        st.integers(0, 9999),
    ),
    st.builds("{}{}{}".format, st.sampled_from(["", "-"]), DIGITS, st.sampled_from(["", ".5"])),
    st.sampled_from(["1e999", "-1E+400", "1e308", "1.8e308", "NaN", "Infinity", "-0", "01", "1.", "1e"]),
)
PIECES = st.one_of(
    st.text(max_size=3).map(lambda text: text.replace('"', "").replace("\\", "")),
    st.sampled_from(["\\n", "\\\\", '\\"', "\\/", "\\x", "\\u00", "\\u00e9", "\\u0000", "\\u009f"]),
    st.sampled_from(["\\ud83d\\ude00", "\\ud83d", "\\ude00", "\\uDFFF", "\\ud83d\\n", "\\ud83d\\ud83d"]),
)
STRINGS = st.lists(PIECES, max_size=4).map(lambda pieces: f'"{"".join(pieces)}"')
WORDS = st.sampled_from(["true", "false", "null", "nul", "[]", "{}"])
VALUES = st.recursive(
    st.one_of(NUMBERS, STRINGS, WORDS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map(lambda items: f"[{','.join(items)}]"),
        st.lists(st.tuples(STRINGS, inner), max_size=3).map(
            lambda pairs: "{" + ",".join(f"{name}: {value}" for name, value in pairs) + "}"
        ),
    ),
    max_leaves=8,
)
DEEP = st.builds(lambda depth, value: "[" * depth + value + "]" * depth, st.integers(1, 1500), VALUES)
TEXTS = st.one_of(VALUES, DEEP).map(lambda text: text.encode("utf-8", "surrogatepass"))


class AnyKind:
    """A gateway of one model, as far as the reader asks it."""

    def __init__(self, kind: str) -> None:
        self.kinds = {None: kind}
        self._kind = kind

    def kind_of(self, model: str | None) -> str:
        return self._kind


def reader(kind: str, controls: str) -> Reader:
    return Reader(cast(Gateway, AnyKind(kind)), max_depth=512, control_characters=controls)


DOORS = {
    "native": lambda reader, body: reader.full(body, NO_HEADERS),
    "plain": lambda reader, body: reader.plain(body),
    "short": lambda reader, body: reader.short(body, {}),
}


@settings(deadline=None, derandomize=True, max_examples=600)
@given(
    payload=TEXTS,
    kind=st.sampled_from(["text", "json"]),
    controls=st.sampled_from(["refuse", "strip", "allow"]),
    door=st.sampled_from(sorted(DOORS)),
)
def test_an_input_that_the_door_lets_in_can_be_read_by_the_child(
    payload: bytes, kind: str, controls: str, door: str
) -> None:
    body = b'{"input": ' + payload + b"}"
    try:
        ask = DOORS[door](reader(kind, controls), body)
    except (Unacceptable, Malformed):
        return
    (decode_text if kind == "text" else decode_json)(ask.input)


@settings(deadline=None, derandomize=True, max_examples=600)
@given(payload=TEXTS)
def test_parameters_that_the_door_lets_in_can_be_read_by_the_child(payload: bytes) -> None:
    body = b'{"input": "a", "parameters": {"a": ' + payload + b"}}"
    try:
        ask = reader("json", "refuse").full(body, NO_HEADERS)
    except (Unacceptable, Malformed):
        return
    assert "a" in decode_json(ask.parameters)


@pytest.mark.parametrize(
    "payload",
    [b"1e999", b"-1E400", b"[1e999]", b'{"a": [1, 2e310]}', b"7" * 5000, b"[" + b"7" * 5000 + b"]"],
    ids=["1e999", "-1E400", "in a list", "in a dict", "long", "long in a list"],
)
@pytest.mark.parametrize("door", DOORS)
def test_a_number_that_nobody_can_hold_is_refused_in_words(payload: bytes, door: str) -> None:
    ask: Any = DOORS[door]
    with pytest.raises(Unacceptable, match=r"'input' cannot be read: .* out of range"):
        ask(reader("json", "refuse"), b'{"input": ' + payload + b"}")
