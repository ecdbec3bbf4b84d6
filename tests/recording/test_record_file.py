"""The file of recorded arrivals: bounded, whole, shared, private."""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.adapters.recording.file import HEADER, RecordFile

Open = Callable[..., RecordFile]

LINE = "2026-01-01 00:00:00.0000000,1,10,20,0,paid,it\n"


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    """Opens the file, and closes it after the test."""
    files = []

    def open_it(limit: int = 10_000) -> RecordFile:
        files.append(RecordFile(tmp_path / "arrivals.csv", limit))
        return files[-1]

    yield open_it
    for file in files:
        file.close()


def numbered(first: int, count: int) -> str:
    return "".join(f"{number:06},{'x' * 20}\n" for number in range(first, first + count))


def numbers(path: Path) -> list[int]:
    header, *lines = path.read_text().splitlines(keepends=True)
    assert header == HEADER
    return [int(line.partition(",")[0]) for line in lines]


def test_a_new_file_is_private_and_begins_with_a_header(tmp_path: Path, opened: Open) -> None:
    path = tmp_path / "arrivals.csv"
    file = opened()
    file.write(LINE)
    file.close()
    opened().write(LINE)
    assert path.read_text() == HEADER + LINE + LINE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_full_file_loses_its_older_half_and_never_exceeds_its_limit(tmp_path: Path, opened: Open) -> None:
    path = tmp_path / "arrivals.csv"
    file = opened(4000)
    for first in range(0, 2000, 7):
        file.write(numbered(first, 7))
        assert path.stat().st_size <= 4000
        kept = numbers(path)
        assert kept == list(range(kept[0], first + 7)), "the newest are there without a gap"
    assert len(numbers(path)) > 4000 * 0.4 / 28


def test_a_text_larger_than_the_file_leaves_nothing_else(tmp_path: Path, opened: Open) -> None:
    path = tmp_path / "arrivals.csv"
    file = opened(200)
    file.write(LINE)
    file.write(LINE * 6)
    assert path.read_text() == HEADER + LINE * 6


def test_several_processes_may_write_to_one_file_while_it_is_shortened(tmp_path: Path, opened: Open) -> None:
    path = tmp_path / "arrivals.csv"
    files = [opened(4000) for _ in range(2)]
    for first in range(0, 1000, 5):
        files[first % 2].write(numbered(first, 5))
    kept = numbers(path)
    assert kept == list(range(kept[0], 1000))


def test_a_file_that_is_moved_away_or_deleted_is_begun_anew(tmp_path: Path, opened: Open) -> None:
    path = tmp_path / "arrivals.csv"
    file = opened()
    file.write(LINE)
    path.rename(tmp_path / "old.csv")
    file.write(LINE)
    assert path.read_text() == HEADER + LINE
    path.unlink()
    file.write(LINE)
    assert path.read_text() == HEADER + LINE
    assert (tmp_path / "old.csv").read_text() == HEADER + LINE


def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path, opened: Open) -> None:
    path = tmp_path / "arrivals.csv"
    path.write_text("TIMESTAMP,ContextTokens\n")
    with pytest.raises(OSError, match="it holds something else"):
        opened()
    assert path.read_text() == "TIMESTAMP,ContextTokens\n"


def test_what_cannot_be_written_is_told(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    file = opened()

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "write", full)
        with pytest.raises(OSError, match="No space"):
            file.write(LINE)
    assert file.trouble == "No space left on device"
    file.write(LINE)
    assert file.trouble == ""
