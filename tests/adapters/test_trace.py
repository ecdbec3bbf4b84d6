"""Which trace of a batch its endpoint is told of."""

import pytest

from penstock.adapters.backends.trace import trace_of
from penstock.types import Batch, Reason, Request

A, B = (f"00-{letter * 32}-{letter * 16}-01" for letter in "ab")


def told(*traces: tuple[str | None, str | None]) -> object:
    requests = [
        Request("k", "m", b"1", 0.0, 9.0, 9.0, traceparent=parent, tracestate=state)
        for parent, state in traces
    ]
    return trace_of(Batch(1, "m", b"", requests, Reason.FULL, 0.0))


def test_of_a_batch_with_several_traces_the_first_is_told_with_its_own_state() -> None:
    assert told((None, None), (A, None), (B, "b=1")) == {"traceparent": A}
    assert told((None, "x=1"), (B, "b=1"), (A, "a=1")) == {"traceparent": B, "tracestate": "b=1"}
    assert told((None, "x=1"), (None, None)) == {}


@pytest.mark.parametrize("garbage", ["a\r\nx: y", "\0", "é"])
def test_what_cannot_stand_in_a_header_is_not_told(garbage: str) -> None:
    assert told((garbage, None), (A, garbage)) == {"traceparent": A}
