"""A body that comes in pieces is what was sent, however large the pieces are (SPEC A7)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.http.body import LARGE, body


@given(st.binary(max_size=10), st.lists(st.binary(max_size=10)), st.booleans())
def test_small_ones(first: bytes, pieces: list[bytes], crowded: bool) -> None:
    made = body(first, crowded=crowded)
    for piece in pieces:
        made.add(piece)
    assert made.whole() == first + b"".join(pieces)
    assert made.size == len(first + b"".join(pieces))


@pytest.mark.parametrize(
    "sizes", [[1, LARGE], [LARGE, 1], [LARGE] * 20, [1, 10 * LARGE, 1, 50 * LARGE, 0, 7]]
)
@pytest.mark.parametrize("crowded", [True, False])
def test_large_ones(sizes: list[int], crowded: bool) -> None:
    pieces = [bytes([number]) * size for number, size in enumerate(sizes)]
    made = body(pieces[0], crowded=crowded)
    for piece in pieces[1:]:
        made.add(piece)
    assert made.whole() == b"".join(pieces)
