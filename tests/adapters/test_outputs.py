"""Outputs of the commonest types are encoded together, which must show in nothing but the time it takes."""

from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.adapters.backends.outputs import Outputs

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@given(st.lists(PLAIN | st.binary() | st.just("null"), max_size=8), st.sampled_from(["auto", "text"]))
def test_a_batch_is_encoded_as_its_outputs_are_one_by_one(outputs: list[Any], kind: str) -> None:
    alone = [Outputs("f", kind).encode([output], 1) for output in outputs]
    together = Outputs("f", kind).encode(outputs, len(outputs))
    assert together.outputs == [each.outputs[0] for each in alone]
    assert together.failed == [
        (position, *why) for position, each in enumerate(alone) for _, *why in each.failed
    ]


@pytest.mark.parametrize("bad", [nan, [inf], {"score": nan}, "\ud800", {"text": "\ud800"}, {1, object()}])
def test_one_bad_output_among_plain_ones_fails_alone(bad: Any) -> None:
    encoded = Outputs("f", "auto").encode([1.5, [2], bad, {"null": None}, "null"], 5)
    assert encoded.outputs == [b"1.5", b"[2]", b"", b'{"null":null}', b'"null"']
    assert [position for position, _, _ in encoded.failed] == [2]
