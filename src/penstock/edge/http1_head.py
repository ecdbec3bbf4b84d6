"""The head of an answer, as HTTP/1.1 has it."""

from http import HTTPStatus

from penstock.edge.answer import Answer

GOES_ON, ENDS = "\r\n", "connection: close\r\n\r\n"  # whether more may follow on this connection

_FIRST_LINE = {status.value: f"HTTP/1.1 {status.value} {status.phrase}" for status in HTTPStatus}
_line = ": ".join
_lines = "\r\n".join


def head_of(answer: Answer, date: str, ending: str = GOES_ON) -> bytes:
    """In few steps, since this is done for every answer: the fields are joined without a loop here."""
    return _lines(
        [
            _FIRST_LINE[answer.status],
            *map(_line, answer.fields),
            f"content-length: {len(answer.body)}\r\ndate: {date}",
            ending,
        ]
    ).encode("latin-1")
