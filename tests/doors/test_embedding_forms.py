"""What the door for embeddings makes of bodies and of outputs, without a server."""

import json
import struct
from base64 import b64decode
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.doors.door import Call, Inside
from penstock.doors.embeddings import Embeddings
from penstock.doors.steps import at_once
from penstock.ports import Gateway
from penstock.types import Accepted, Reply

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


class OneModel:
    """As much of a gateway as this door asks: one model, which takes text."""

    def __init__(self) -> None:
        self.kinds = {None: "text", "m": "text"}

    def kind_of(self, model: str | None) -> str:
        return "text"


DOOR = Embeddings(Inside(cast(Gateway, OneModel())))


def answered(encoding: str | None, output: bytes) -> tuple[int, Any]:
    """The status of the answer, and the embedding in it."""
    said = {"input": "a", "encoding_format": encoding}
    call = DOOR.read_one(json.dumps(said).encode())
    assert call is not None
    request = cast(
        Accepted, type("R", (), {"request_id": "r", "model": "m", "account": None, "traceparent": None})
    )
    answer = call.answer([Reply(request, cast(Any, None), output)], 0.0)
    body = json.loads(answer.whole)
    return answer.status, body["data"][0]["embedding"] if answer.status == 200 else None


def is_embedding(value: Any) -> bool:
    return isinstance(value, list) and all(type(each) in (int, float) for each in value)


@given(ANY_JSON | st.lists(NUMBERS))
def test_lists_of_numbers_are_embeddings_and_nothing_else_is(value: Any) -> None:
    output = json.dumps(value).encode()
    for encoding in ("float", "base64"):
        assert answered(encoding, output)[0] == (200 if is_embedding(value) else 400)


@given(st.lists(NUMBERS, max_size=20))
def test_float_is_what_the_function_gave_and_base64_the_nearest_float32(value: list[float]) -> None:
    output = json.dumps(value).encode()
    assert answered("float", output) == answered(None, output) == (200, value)
    _, text = answered("base64", output)
    packed = struct.unpack(f"<{len(value)}f", b64decode(text))
    assert list(packed) == [float32(float(each)) for each in value]


def float32(value: float) -> float:
    try:
        nearest: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return nearest


@pytest.mark.parametrize(
    "said",
    [
        {"input": "a"},
        {"input": "a", "model": "m", "encoding_format": "base64"},
        {"input": "a", "encoding_format": None, "service_tier": "auto"},
        {"input": "größer", "encoding_format": "float"},
        {"input": ["a"], "model": "m"},
        {"input": "a", "user": "somebody", "dimensions": 2e3},
        {"input": 'with "quotes"'},
    ],
)
@pytest.mark.parametrize("escaped", [True, False])
def test_a_body_is_the_same_call_however_it_is_read(said: dict[str, Any], escaped: bool) -> None:
    body = json.dumps(said, ensure_ascii=escaped).encode()
    [slow], quick = at_once(DOOR.read(body, {})), DOOR.read_one(body)
    if quick is not None:
        assert isinstance(quick, Call)
        [ask] = quick
        assert (ask.input, ask.model, ask.parameters, ask.client_id) == (
            slow.input, slow.model, slow.parameters, slow.client_id,
        )  # fmt: skip
    else:
        assert said["input"] != "a" or "user" in said
