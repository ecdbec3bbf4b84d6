"""Standard input, which comes in its own time: no event loop waits for it, and no line for the next."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Thread

import pytest
from scripted_server import in_loop

from penstock.client.standard_input import AHEAD, CHUNK, StandardInput
from server import HUNG, PENSTOCK, eventually, running

Pipe = tuple[int, int]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    yield reading, writing
    os.close(reading)
    try:
        os.close(writing)
    except OSError:  # the test has closed it
        pass


async def ended(thread: Thread) -> None:
    await asyncio.to_thread(thread.join, HUNG)
    assert not thread.is_alive()


@in_loop
async def test_each_line_is_there_as_soon_as_it_has_come(pipe: Pipe) -> None:
    reading, writing = pipe
    source = StandardInput(reading)
    lines = source.lines()
    async with asyncio.timeout(HUNG):
        for text in (b"one", b"", b"another"):
            os.write(writing, text + b"\n")
            assert await anext(lines) == text
        os.write(writing, b"a\nb\nin ")
        assert [await anext(lines), await anext(lines)] == [b"a", b"b"]
        os.write(writing, b"two\nlast")
        assert await anext(lines) == b"in two"
        os.close(writing)
        assert [line async for line in lines] == [b"last"]
        source.stop()
        await ended(source._thread)


@in_loop
async def test_who_waits_for_a_line_is_told_to_stop_and_the_thread_ends(pipe: Pipe) -> None:
    source = StandardInput(pipe[0])
    lines = source.lines()
    waiting = asyncio.ensure_future(anext(lines))
    await asyncio.sleep(0)
    source.stop()
    source.stop()  # once more is nothing
    async with asyncio.timeout(HUNG):
        with pytest.raises(StopAsyncIteration):
            await waiting
        await ended(source._thread)


@in_loop
async def test_no_more_is_read_than_is_wanted_soon_and_long_lines_are_whole(
    pipe: Pipe, tmp_path: Path
) -> None:
    long = b"x" * (3 * CHUNK + 5)
    file = tmp_path / "lines"
    file.write_bytes(b"\n".join([long, *[b"y" * (CHUNK - 1)] * 100]))
    with file.open("rb") as opened:
        source = StandardInput(opened.fileno())
        lines = source.lines()
        async with asyncio.timeout(HUNG):
            assert await anext(lines) == long
            assert os.lseek(opened.fileno(), 0, os.SEEK_CUR) <= (AHEAD + 6) * CHUNK
            assert [len(line) async for line in lines] == [CHUNK - 1] * 100
            source.stop()
            await ended(source._thread)


@in_loop
async def test_an_input_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    source = StandardInput(folder)
    with pytest.raises(OSError, match="directory"):
        async with asyncio.timeout(HUNG):
            await anext(source.lines())
    source.stop()
    await ended(source._thread)
    os.close(folder)


def has_lines(file: Path, count: int) -> bool:
    return file.exists() and len(file.read_bytes().splitlines()) == count


def test_a_line_is_answered_while_the_next_has_not_come_and_ctrl_c_ends(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with (
        running("sim:1ms") as server,
        subprocess.Popen(
            [str(PENSTOCK), "map", "-", "out.jsonl", "--url", server.url],
            cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ) as process,
    ):  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for count in (1, 2):
                process.stdin.write(f'"line {count}"\n')
                process.stdin.flush()
                eventually(partial(has_lines, out, count))
            process.send_signal(signal.SIGINT)
            process.wait(HUNG)
        finally:
            process.kill()
        assert process.returncode == 130
        assert process.stdout.read().startswith("2 done, 0 failed, in ")


def test_without_a_standard_input_that_is_said(tmp_path: Path) -> None:
    told = subprocess.run(
        ["sh", "-c", f"exec {PENSTOCK} map - out.jsonl <&-"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=HUNG,
    )  # fmt: skip
    assert (told.returncode, told.stderr) == (2, "penstock: there is no standard input: it was closed\n")
