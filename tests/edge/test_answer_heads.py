"""What the head of an answer says, however it is written."""

from itertools import product

import pytest

from penstock.edge.answer import JSON, JSON_ALONE, Answer, Fields, Quota, Usual, with_fields
from penstock.edge.http1_head import ENDS, head_of

HTML = ("content-type", "text/html")


def lines(answer: Answer) -> list[tuple[str, str]]:
    """The fields of the head as HTTP/1.1 has it, without the date."""
    first, *rest, date, _, _ = head_of(answer, "today").decode().split("\r\n")
    assert first == "HTTP/1.1 200 OK"
    assert date == "date: today"
    return [(name, value) for name, _, value in (line.partition(": ") for line in rest)]


@pytest.mark.parametrize(
    ("fields", "timing", "trace", "quota"),
    list(
        product(
            [JSON_ALONE, [JSON], [HTML, ("x", "y")], []],
            ["", "queue;dur=1"],
            [None, "00-a"],
            [None, (9, 8, 7)],
        )
    ),
)
def test_http1_writes_every_field_that_an_answer_has(
    fields: Fields, timing: str, trace: str | None, quota: Quota | None
) -> None:
    answer = Answer(200, fields, b"body", Usual("id", timing, trace, quota), b"before ", b" after")
    assert lines(answer) == [*answer.all_fields, ("content-length", str(len(b"before body after")))]
    assert answer.whole == b"before body after"


def test_usual_fields_are_told_where_there_is_something_to_tell() -> None:
    told = Usual("id", "queue;dur=1", "00-a", (9, 8, 7))
    assert told.fields == [
        ("x-request-id", "id"), ("server-timing", "queue;dur=1"), ("traceparent", "00-a"),
        ("ratelimit-limit", "9"), ("ratelimit-remaining", "8"), ("ratelimit-reset", "7"),
    ]  # fmt: skip
    assert Usual("id", "", None, None).fields == [("x-request-id", "id")]


def test_more_fields_leave_the_others_and_the_body_as_they_are() -> None:
    answer = Answer(200, JSON_ALONE, b"body", Usual("id", "", None, None), b"[", b"]")
    more = with_fields(answer, [("a", "b")])
    assert lines(more) == [JSON, ("a", "b"), ("x-request-id", "id"), ("content-length", "6")]
    assert more.whole == b"[body]"


def test_the_last_head_on_a_connection_says_so() -> None:
    assert head_of(Answer(200, [], b""), "today", ENDS).endswith(b"date: today\r\nconnection: close\r\n\r\n")
