"""What a function may say of one answer beside its output, and how that note travels. Users import `Output`.

A function returns `Output(value, tokens_used=17)` instead of a plain value. The note `tokens_used` travels behind
the output, in the same bytes (`with_note`). So it goes wherever the output goes: to another process, into a cache,
into the record of a task. Only the doors, which write answers, take the two apart (`without_note`).

    "the output"␞"tokens_used":17␞        ␞ is the byte 1E, which JSON never holds unescaped

An output of bytes travels as text in base64, and its note says so. Only where the input was not JSON it travels as
it is, behind a byte that no JSON begins with: whoever sent such an input understands it.

    ␀ bytes␞"tokens_used":17␞

This module imports nothing of Penstock, because users import it into their own code.
"""

from base64 import b64decode, b64encode
from operator import index
from typing import Any

MARK = b"\x1e"  # stands before a note, and after it
RAW = b"\x00"  # begins an output of bytes that travels as it is
IN_BASE64 = '"output_encoding":"base64"'  # the member of a note that says that the output is base64
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


def of_bytes(output: bytes | bytearray | memoryview, tokens_used: int | None) -> bytes:
    """An output of bytes as it is. It always has a note, be it empty: bytes may end with anything."""
    tokens = b"" if tokens_used is None else b'"tokens_used":%d' % tokens_used
    return b"".join((RAW, output, MARK, tokens, MARK))


def without_note(output: bytes) -> tuple[bytes, str]:
    """The output itself, and the note as members of a JSON object; empty if there is none."""
    if not output.endswith(MARK):
        return output, ""
    end = output.rfind(MARK, 0, -1)
    return output[:end], output[end + 1 : -1].decode()


def in_json(output: bytes) -> tuple[bytes, str]:
    """The output as JSON, and the note as members of a JSON object; empty if there is none."""
    bare, note = without_note(output)
    if bare.startswith(RAW):
        return b'"%b"' % b64encode(memoryview(bare)[1:]), f"{note},{IN_BASE64}" if note else IN_BASE64
    return bare, note


def as_bytes(output: bytes) -> tuple[bytes | None, str]:
    """The bytes that the output is, and the note without what is said of that; None if it is JSON."""
    if output.startswith(RAW):
        end = output.rfind(MARK, 0, -1)
        return output[1:end], output[end + 1 : -1].decode()
    bare, note = without_note(output)
    if not note.endswith(IN_BASE64):
        return None, note
    return b64decode(bare[1:-1]), note.removesuffix(IN_BASE64).removesuffix(",")
