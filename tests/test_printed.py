"""Lines of bounded length from whatever bytes a program prints, in whatever pieces they come."""

import fcntl
import os

from hypothesis import given
from hypothesis import strategies as st

from penstock.printed import AT_ONCE, Lines, has_room, written

LONGEST = 8
pieces = st.lists(
    st.lists(st.sampled_from([b"a", b"b", b"\n", b"\xff"]), max_size=40).map(b"".join), max_size=8
)


@given(pieces)
def test_lines_do_not_depend_on_the_pieces_they_came_in(chunks: list[bytes]) -> None:
    def lines_of(chunks: list[bytes]) -> tuple[list[bytes], int]:
        lines = Lines(LONGEST)
        found = [line for chunk in chunks for line in lines.feed(chunk)]
        return [*found, *lines.flush()], lines.left_out

    found, left_out = lines_of(chunks)
    whole = b"".join(chunks)
    expected = whole.split(b"\n") if whole else []
    if expected and not expected[-1]:
        expected.pop()
    assert found == [line[:LONGEST] for line in expected]
    assert left_out == sum(max(0, len(line) - LONGEST) for line in expected)


@given(pieces, st.integers(1, 1000))
def test_no_byte_is_unaccounted_for_where_some_were_skipped(chunks: list[bytes], gap: int) -> None:
    lines = Lines(LONGEST)
    found: list[bytes] = []
    for chunk in chunks:
        found += lines.feed(chunk)
        lines.skip(gap)
    found += lines.flush()
    newlines = sum(chunk.count(b"\n") for chunk in chunks)
    accounted = sum(map(len, found)) + lines.left_out
    total = sum(map(len, chunks)) + gap * len(chunks)
    assert total - newlines == accounted


def test_a_pipe_that_nobody_reads_has_room_until_a_quarter_is_full() -> None:
    ours, theirs = os.pipe()
    try:
        size = fcntl.fcntl(theirs, fcntl.F_GETPIPE_SZ)
        assert has_room(theirs)
        line = b"x" * 99
        lines = [line] * (2 * size // 100)
        left_out = written(theirs, lines)
        assert not has_room(theirs)
        got = os.read(ours, 2 * size)
        assert len(got) + left_out == 100 * len(lines)
        assert size // 4 < len(got) <= size // 4 + AT_ONCE
        assert set(got.splitlines()) == {line}
        assert has_room(theirs)
    finally:
        os.close(ours)
        os.close(theirs)


def test_what_nobody_can_read_any_more_is_left_out() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        assert written(theirs, [b"line"]) == len(b"line\n")
    finally:
        os.close(theirs)
