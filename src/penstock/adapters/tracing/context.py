"""Trace contexts: which span something belongs to, as W3C's `traceparent` says it. The files of this folder that
make or write a span use it. Pure."""

from random import Random

from msgspec import Struct

SAMPLED = frozenset("13579bdf")  # the last digit of the flags of a trace that is recorded

# `00-<32 digits>-<16 digits>-<2 digits>`; a later version may have more behind another dash.
LENGTH = 55
NO_TRACE, NO_SPAN = bytes(16), bytes(8)


class Context(Struct, frozen=True, gc=False):
    """One span of one trace."""

    trace: bytes  # 16 bytes
    span: bytes  # 8 bytes

    @property
    def traceparent(self) -> str:
        """The header with which whoever goes on with a recorded trace is told of this span."""
        return f"00-{self.trace.hex()}-{self.span.hex()}-01"


def context_of(traceparent: str) -> Context | None:
    """Returns the context that a traceparent names; None if it names none. It may come from another program."""
    try:
        trace, span = bytes.fromhex(traceparent[3:35]), bytes.fromhex(traceparent[36:52])
    except ValueError:
        return None
    if len(trace) != 16 or len(span) != 8 or trace == NO_TRACE or span == NO_SPAN:
        return None
    if traceparent[:3] != "00-" or len(traceparent) != LENGTH:
        known = traceparent[:2] not in ("00", "ff") and traceparent[LENGTH : LENGTH + 1] in ("", "-")
        return Context(trace, span) if known else None
    return Context(trace, span)


def is_sampled(traceparent: str | None) -> bool:
    """Returns whether the trace is recorded, by its flags. This is asked for each request of each batch."""
    return traceparent is not None and traceparent[54:55] in SAMPLED


class Ids:
    """Random ids of traces and spans, never zero."""

    def __init__(self, random: Random | None = None) -> None:
        self.draw = (random or Random()).getrandbits

    def span(self) -> bytes:
        return (self.draw(64) or 1).to_bytes(8, "big")

    def trace(self, low: int) -> bytes:
        """Returns the id of a new trace. `low`: its lower half, by which it was sampled."""
        return ((self.draw(64) << 64 | low) or 1).to_bytes(16, "big")
