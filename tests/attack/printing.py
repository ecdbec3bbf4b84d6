"""User code that prints what an input asks for, without a newline, as a forgotten debugging line would."""

import os

from model import batchstring as reversed_batch

AT_ONCE = 256 * 1024  # bytes


def batchstring(inputs: list[str]) -> list[str]:
    for text in inputs:
        if text.startswith("print:"):
            os.write(1, b"\xff" * AT_ONCE)
            os.write(2, b"x" * AT_ONCE)
    return reversed_batch(inputs)
