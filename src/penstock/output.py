"""What a function may say of one answer beside its output, and how that note travels. Users import `Output`.

A function returns `Output(value, tokens_used=17)` instead of a plain value. The note `tokens_used` travels behind
the output, in the same bytes (`with_note`). So it goes wherever the output goes: to another process, into a cache,
into the record of a task. Only the doors, which write answers, take the two apart (`without_note`).

    "the output"␞"tokens_used":17␞        ␞ is the byte 1E, which JSON never holds unescaped

An output of bytes travels as text in base64, and its note says so.

This module imports nothing of Penstock, because users import it into their own code.
"""

from operator import index
from typing import Any

MARK = b"\x1e"
IN_BASE64 = '"output_encoding":"base64"'
NOTED = MARK[0]  # the last byte of an output with a note, as a number, which is the fastest to compare


class Output:
    """One output of a batch, with what the answer's `metadata` is to say of it."""

    __slots__ = ("tokens_used", "value")

    def __init__(self, value: Any, *, tokens_used: int | None = None) -> None:
        """`tokens_used`: a whole number of 0 or more."""
        self.value = value
        self.tokens_used = None if tokens_used is None else index(tokens_used)
        if self.tokens_used is not None and self.tokens_used < 0:
            raise ValueError(f"tokens_used must not be below 0, and is {self.tokens_used}")

    def __repr__(self) -> str:
        return f"Output({self.value!r}, tokens_used={self.tokens_used})"


def with_note(output: bytes, tokens_used: int | None, *, are_bytes: bool = False) -> bytes:
    """The output, which is JSON, with its note behind it. `are_bytes`: the output is base64 text, and stands for
    bytes."""
    if are_bytes:
        tokens = b"" if tokens_used is None else b'"tokens_used":%d,' % tokens_used
        return b"%b\x1e%b%b\x1e" % (output, tokens, IN_BASE64.encode())
    return output if tokens_used is None else b'%b\x1e"tokens_used":%d\x1e' % (output, tokens_used)


def without_note(output: bytes) -> tuple[bytes, str]:
    """The JSON itself, and the note as members of a JSON object; empty if there is none."""
    if not output.endswith(MARK):
        return output, ""
    bare, _, note = output[:-1].rpartition(MARK)
    return bare, note.decode()


def is_bytes(note: str) -> bool:
    """Whether the output with this note stands for bytes."""
    return note.endswith(IN_BASE64)
