"""Lines of bounded length from whatever bytes a program prints, in whatever pieces they come."""

import asyncio
import fcntl
import os
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from penstock.printed import AT_ONCE, Lines, Spout, has_room

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


def test_a_spout_waits_for_nobody_holds_some_and_counts_the_rest() -> None:
    async def body() -> None:
        ours, theirs = os.pipe()
        size = fcntl.fcntl(theirs, fcntl.F_GETPIPE_SZ)
        spout = Spout(theirs, asyncio.get_running_loop(), size)
        line = b"x" * 99
        spout.write([line] * (4 * size // 100))
        assert not has_room(theirs)
        os.set_blocking(ours, False)
        in_pipe = os.read(ours, 4 * size)
        assert size // 4 < len(in_pipe) <= size // 4 + AT_ONCE
        got = bytearray(in_pipe)
        while spout.held:
            await asyncio.sleep(0)
            with suppress(BlockingIOError):
                got += os.read(ours, 4 * size)
        with suppress(BlockingIOError):
            got += os.read(ours, 4 * size)
        assert len(got) + spout.left_out == 100 * (4 * size // 100)
        assert 0 < spout.left_out < 4 * size
        assert set(bytes(got).splitlines()) == {line}
        os.close(ours)
        os.close(theirs)

    asyncio.run(body())


def test_what_nobody_can_read_any_more_is_left_out() -> None:
    async def body() -> None:
        ours, theirs = os.pipe()
        os.close(ours)
        spout = Spout(theirs, asyncio.get_running_loop(), 1000)
        spout.write([b"line"])
        assert (spout.held, spout.left_out) == (0, len(b"line\n"))
        os.close(theirs)

    asyncio.run(body())
