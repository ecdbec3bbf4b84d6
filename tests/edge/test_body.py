"""A body that comes in pieces is what was sent, however large the pieces are."""

from socket import socketpair

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


@pytest.mark.parametrize("crowded", [True, False])
@pytest.mark.parametrize("length", [0, 3 * LARGE])
def test_what_is_read_from_a_socket_is_kept_like_what_was_handed_over(length: int, crowded: bool) -> None:
    ours, theirs = socketpair()
    with ours, theirs:
        made, sent = Body(b"first", length), b"first"
        for number, size in enumerate((10, LARGE, 1)):
            piece = bytes([number]) * size
            theirs.sendall(piece)
            while len(sent) + size > made.size:
                assert 0 < made.read(ours.fileno(), len(sent) + size - made.size, crowded=crowded) <= size
            sent += piece
        theirs.close()
        assert made.read(ours.fileno(), 100, crowded=crowded) == 0
    assert made.whole() == sent


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
