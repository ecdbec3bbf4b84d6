"""The head of an answer, as HTTP/1.1 has it."""

from http import HTTPStatus

from penstock.edge.answer import Answer

GOES_ON, ENDS = "\r\n", "connection: close\r\n\r\n"  # whether more may follow on this connection

_FIRST_LINE = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}


def head_of(answer: Answer, date: str, ending: str = GOES_ON) -> bytes:
    lines = _FIRST_LINE[answer.status]
    for name, value in answer.fields:  # growing a string in its place takes less time than joining many
        lines += f"{name}: {value}\r\n"
    return f"{lines}content-length: {len(answer.body)}\r\ndate: {date}\r\n{ending}".encode("latin-1")
