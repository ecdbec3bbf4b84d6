"""What is wrong with a body is said in plain words, and quotes no more of it than fits on a line."""

import msgspec
import pytest

from penstock.doors.native_body import InferenceBody
from penstock.doors.tei import EmbedBody
from penstock.doors.wrong_body import LONGEST_QUOTE, in_words

KNOWN = "input, model, parameters, client_id, timeout_ms, callback_url"


def words(body: bytes, kind: type[msgspec.Struct] = InferenceBody) -> tuple[int, str]:
    with pytest.raises(msgspec.MsgspecError) as caught:
        msgspec.json.decode(body, type=kind)
    refused = in_words(caught.value, kind.__struct_fields__)
    return refused.status, refused.message


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b'{"inputs": 1}', 422, f"unknown field 'inputs'; known here: {KNOWN}"),
        (b'{"in`put": 1}', 422, f"unknown field 'in`put'; known here: {KNOWN}"),
        (b"{}", 422, "the field 'input' is missing"),
        (b'{"input": 1, "model": 5}', 422, "'model' must be a string, not a number"),
        (b'{"input": 1, "model": 0.5}', 422, "'model' must be a string, not a number"),
        (b'{"input": 1, "timeout_ms": "5"}', 422, "'timeout_ms' must be a number, not a string"),
        (b'{"input": 1, "timeout_ms": true}', 422, "'timeout_ms' must be a number, not true or false"),
        (b'{"input": 1, "timeout_ms": 1e999}', 422, "'timeout_ms': number out of range"),
        (b"[]", 422, "the body must be a JSON object, not an array"),
        (b"null", 422, "the body must be a JSON object, not null"),
        (b"", 400, "the body is not JSON: it is empty, or ends too early"),
        (b'{"input": ', 400, "the body is not JSON: it is empty, or ends too early"),
        (b'{"input": 1} x', 400, "the body is not JSON: trailing characters (byte 14)"),
    ],
)
def test_each_mistake_names_the_field_and_what_is_wanted(body: bytes, status: int, message: str) -> None:
    assert words(body) == (status, message)


def test_a_word_that_is_none_of_those_allowed_is_named_with_its_field() -> None:
    said = words(b'{"inputs": "a", "truncation_direction": "Up"}', EmbedBody)
    assert said == (422, "'truncation_direction': invalid enum value 'Up'")


def test_a_name_as_long_as_a_body_is_cut() -> None:
    _, message = words(b'{"%b": 1}' % (b"x" * 5000))
    assert message.count("x") < LONGEST_QUOTE


def test_what_is_nested_too_deeply_is_said_to_be() -> None:
    assert in_words(RecursionError()).message == "the body is nested too deeply"
