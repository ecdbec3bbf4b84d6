"""User code that takes little of the machine: each input reversed, and trouble where an input asks for it."""

import os
import time

SECONDS, SLOW = 0.005, 0.05  # that a batch takes on the GPU


def batchstring(inputs: list[str]) -> list[str]:
    time.sleep(SECONDS)
    for text in inputs:
        match text[:6]:
            case "raise:":
                raise ValueError("an input that nobody can compute")
            case "quote:":
                raise ValueError(f"cannot read {text}")
            case "crash:":
                os._exit(4)
            case "sleep:":
                time.sleep(3600)
    return [text[::-1] for text in inputs]


def noted(inputs: list[str], note: str = "") -> list[str]:
    """The same, with parameters."""
    return batchstring(inputs)


def anything(inputs: list[object]) -> list[object]:
    """The same for JSON of any kind, of which what is no text is left out."""
    return list(batchstring([each if isinstance(each, str) else "" for each in inputs]))


def slow(inputs: list[str]) -> list[str]:
    time.sleep(SLOW)
    return [text[::-1] for text in inputs]


def with_options(inputs: list[str], **options: object) -> list[str]:
    return batchstring(inputs)
