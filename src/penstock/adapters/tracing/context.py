"""Trace contexts: which span something belongs to, as W3C's `traceparent` says it. Used by all of this package."""

import re
from random import Random

from msgspec import Struct

SAMPLED = frozenset("13579bdf")  # the last digit of the flags of a trace that is recorded

_TRACEPARENT = re.compile(
    r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(-.*)?"
)


class Context(Struct, frozen=True, gc=False):
    """One span of one trace."""

    trace: bytes  # 16 bytes
    span: bytes  # 8 bytes

    @property
    def traceparent(self) -> str:
        """How those who go on with a recorded trace are told of it."""
        return f"00-{self.trace.hex()}-{self.span.hex()}-01"


def context_of(traceparent: str) -> Context | None:
    """Returns the context that a traceparent names; None if it names none. It may come from another program."""
    found = _TRACEPARENT.fullmatch(traceparent)
    if found is None or (found[1] == "00" and found[4] is not None):
        return None
    return Context(bytes.fromhex(found[2]), bytes.fromhex(found[3]))


def is_sampled(traceparent: str | None) -> bool:
    """Whether the trace is recorded, by its flags. This is asked for each request of each batch."""
    return traceparent is not None and traceparent[54:55] in SAMPLED


class Ids:
    """Random ids of traces and spans, never zero."""

    def __init__(self, random: Random | None = None) -> None:
        self.draw = (random or Random()).getrandbits

    def span(self) -> bytes:
        return (self.draw(64) or 1).to_bytes(8, "big")

    def trace(self, low: int) -> bytes:
        """The id of a new trace. `low`: its lower half, by which it was sampled."""
        return ((self.draw(64) << 64 | low) or 1).to_bytes(16, "big")
