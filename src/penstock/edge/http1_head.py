"""Writes the head of an answer for HTTP/1.1. Used by `http1.py`."""

from http import HTTPStatus

from penstock.edge.answer import Answer

GOES_ON, ENDS = "\r\n", "connection: close\r\n\r\n"  # the end of a head: more answers may follow, or none

_FIRST_LINE = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}


def head_of(answer: Answer, date: str, ending: str = GOES_ON) -> bytes:
    lines = _FIRST_LINE[answer.status]
    for name, value in answer.fields:  # growing a string in its place takes less time than joining many
        lines += f"{name}: {value}\r\n"
    return f"{lines}content-length: {len(answer.body)}\r\ndate: {date}\r\n{ending}".encode("latin-1")
