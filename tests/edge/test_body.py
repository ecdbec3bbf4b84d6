"""A body that comes in pieces is what was sent, however large the pieces are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.edge.body import LARGE, Body


@given(st.binary(max_size=10), st.lists(st.binary(max_size=10)), st.booleans())
def test_small_ones(first: bytes, pieces: list[bytes], crowded: bool) -> None:
    made = Body(first)
    for piece in pieces:
        made.add(piece, crowded=crowded)
    assert made.whole() == first + b"".join(pieces)
    assert made.size == len(first + b"".join(pieces))


@pytest.mark.parametrize(
    "sizes", [[1, LARGE], [LARGE, 1], [LARGE] * 20, [1, 10 * LARGE, 1, 50 * LARGE, 0, 7]]
)
@pytest.mark.parametrize("crowded", [[True], [False], [False, False, True], [False, True, False]])
def test_large_ones(sizes: list[int], crowded: list[bool]) -> None:
    pieces = [bytes([number]) * size for number, size in enumerate(sizes)]
    made = Body(pieces[0])
    for number, piece in enumerate(pieces[1:]):
        made.add(piece, crowded=crowded[number % len(crowded)])
    assert made.whole() == b"".join(pieces)
