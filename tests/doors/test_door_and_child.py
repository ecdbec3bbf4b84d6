"""What a door understands, the process that runs the function can read: poison goes no further than the door."""

from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.adapters.backends.reading import decode_json, decode_text
from penstock.doors.door import HttpLimits, Inside
from penstock.doors.native import Inference, ShortInference
from penstock.doors.steps import at_once
from penstock.doors.tei import Embed
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


def inside(kind: str, controls: str) -> Inside:
    return Inside(cast(Gateway, AnyKind(kind)), HttpLimits(max_depth=512, control_characters=controls))


DOORS = {
    "native": lambda inside, payload: Inference(inside).read_one(b'{"input": ' + payload + b"}"),
    "in steps": lambda inside, payload: at_once(Inference(inside).read(b'{"input": ' + payload + b"}", {}))[
        0
    ],
    "short": lambda inside, payload: ShortInference(inside).read_one(b'{"input": ' + payload + b"}"),
}


def _embed(inside: Inside, payload: bytes) -> Any:
    return at_once(Embed(inside).read(b'{"inputs": [' + payload + b"]}", {}))[0]


@settings(deadline=None, derandomize=True, max_examples=600)
@given(
    payload=TEXTS,
    kind=st.sampled_from(["text", "json"]),
    controls=st.sampled_from(["refuse", "strip", "allow"]),
    door=st.sampled_from([*DOORS, "embed"]),
)
def test_an_input_that_the_door_lets_in_can_be_read_by_the_child(
    payload: bytes, kind: str, controls: str, door: str
) -> None:
    make: Any = DOORS.get(door, _embed)
    try:
        ask = make(inside(kind, controls), payload)
    except (Unacceptable, Malformed):
        return
    (decode_text if kind == "text" else decode_json)(ask.input)


@settings(deadline=None, derandomize=True, max_examples=600)
@given(payload=TEXTS)
def test_parameters_that_the_door_lets_in_can_be_read_by_the_child(payload: bytes) -> None:
    body = b'{"input": "a", "parameters": {"a": ' + payload + b"}}"
    try:
        ask = Inference(inside("json", "refuse")).read_one(body)
    except (Unacceptable, Malformed):
        return
    assert ask is not None
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
        ask(inside("json", "refuse"), payload)
