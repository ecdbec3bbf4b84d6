"""A body that comes in pieces is what was sent, however large the pieces are (SPEC A7)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.http.body import LARGE, Body


@given(st.binary(max_size=10), st.lists(st.binary(max_size=10)))
def test_small_ones(first: bytes, pieces: list[bytes]) -> None:
    body = Body(first)
    for piece in pieces:
        body.add(piece)
    assert body.whole() == first + b"".join(pieces)
    assert body.size == len(first + b"".join(pieces))


@pytest.mark.parametrize(
    "sizes", [[1, LARGE], [LARGE, 1], [LARGE] * 20, [1, 10 * LARGE, 1, 50 * LARGE, 0, 7]]
)
def test_large_ones(sizes: list[int]) -> None:
    pieces = [bytes([number]) * size for number, size in enumerate(sizes)]
    body = Body(pieces[0])
    for piece in pieces[1:]:
        body.add(piece)
    assert body.whole() == b"".join(pieces)
