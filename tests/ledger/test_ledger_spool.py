"""The spool: bounded, in order, and nobody's rows are forgotten."""

import logging
from pathlib import Path

import pytest

from penstock.adapters.ledger.chunk import Chunk
from penstock.adapters.ledger.spool import Spool
from penstock.errors import UserMistake

BLOCK = 4096
PLENTY = 1000 * BLOCK


def _spool(directory: Path, blocks: int = 1000, **settings: int) -> Spool:
    return Spool(directory, blocks * BLOCK, sync=False, **settings)


def _drain(spool: Spool) -> list[bytes]:
    """Deliver everything; what was delivered."""
    spool.finish()
    found = []
    while (chunk := spool.oldest(0)) is not None:
        found.append(chunk.lines())
        spool.delivered(chunk)
    return found


def _next(spool: Spool) -> Chunk:
    chunk = spool.oldest(0)
    assert chunk is not None
    return chunk


def test_chunks_come_out_in_order_and_leave_nothing_behind(tmp_path: Path) -> None:
    spool = _spool(tmp_path)
    for lines in (b"one", b"two", b"three"):
        spool.add(lines, 1)
    assert _drain(spool) == [b"one", b"two", b"three"]
    assert (spool.rows, spool.bytes, spool.lost, spool.done) == (0, 0, 0, True)
    spool.close()
    assert list(tmp_path.iterdir()) == []


def test_a_chunk_that_was_not_delivered_is_the_next_again(tmp_path: Path) -> None:
    spool = _spool(tmp_path)
    spool.add(b"one", 1)
    first = _next(spool)
    spool.put_back()
    assert _next(spool) is first


def test_numbers_rise_within_a_spool(tmp_path: Path) -> None:
    spool = _spool(tmp_path)
    spool.add(b"one", 1)
    spool.add(b"two", 1)
    first = _next(spool)
    spool.delivered(first)
    second = _next(spool)
    assert (first.spool, first.number) < (second.spool, second.number)


def test_beyond_its_size_the_oldest_rows_go_and_are_counted_and_complained_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spool = _spool(tmp_path, blocks=2)
    with caplog.at_level(logging.ERROR, "penstock.ledger"):
        for number in range(4):
            spool.add(str(number).encode(), rows=10)
    assert spool.lost == 20
    assert spool.bytes == 2 * BLOCK
    assert len([record for record in caplog.records if "the oldest rows are lost" in record.message]) == 2
    assert _drain(spool) == [b"2", b"3"]


def test_the_chunk_that_is_with_the_database_is_not_dropped(tmp_path: Path) -> None:
    spool = _spool(tmp_path, blocks=2)
    spool.add(b"one", 1)
    with_database = _next(spool)
    for lines in (b"two", b"three", b"four"):
        spool.add(lines, 1)
    spool.delivered(with_database)
    assert spool.lost == 2
    assert _drain(spool) == [b"four"]


def test_what_a_dead_process_left_is_delivered_before_what_is_new(tmp_path: Path) -> None:
    dead = _spool(tmp_path)
    dead.add(b"one", 3)
    dead.add(b"two", 4)
    dead.close()
    spool = _spool(tmp_path)
    spool.add(b"three", 5)
    assert spool.rows == 12
    adopted = _next(spool)
    assert (adopted.spool, adopted.number, adopted.rows) == (dead.name, 1, 3)
    assert _drain(spool) == [b"one", b"two", b"three"]
    spool.close()
    assert list(tmp_path.iterdir()) == []


def test_what_a_living_process_has_is_left_to_it(tmp_path: Path) -> None:
    alive = _spool(tmp_path)
    alive.add(b"mine", 1)
    spool = _spool(tmp_path)
    spool.adopt()
    assert _drain(spool) == []
    assert _drain(alive) == [b"mine"]


def test_what_was_left_later_is_taken_over_while_running(tmp_path: Path) -> None:
    dying, spool = _spool(tmp_path), _spool(tmp_path)
    dying.add(b"left", 1)
    dying.close()
    spool.adopt()
    assert _drain(spool) == [b"left"]


def test_a_half_written_file_is_no_chunk(tmp_path: Path) -> None:
    dead = _spool(tmp_path)
    dead.add(b"whole", 1)
    (tmp_path / dead.name / "000000000002-1.part").write_bytes(b"hal")
    dead.close()
    assert _drain(_spool(tmp_path)) == [b"whole"]


def test_while_the_disk_takes_nothing_chunks_are_held_in_memory_and_saved_when_it_does(
    tmp_path: Path,
) -> None:
    spool = _spool(tmp_path)
    home, away = tmp_path / spool.name, tmp_path.parent / "away"
    home.rename(away)
    spool.add(b"one", 1)
    spool.add(b"two", 1)
    away.rename(home)
    spool.add(b"three", 1)
    assert len(list(home.glob("*.jsonl"))) == 3
    assert _drain(spool) == [b"one", b"two", b"three"]


def test_what_is_held_in_memory_can_be_delivered_and_is_bounded(tmp_path: Path) -> None:
    spool = _spool(tmp_path, max_held=2 * BLOCK)
    (tmp_path / spool.name).rename(tmp_path.parent / "away")
    for lines in (b"one", b"two", b"three"):
        spool.add(lines, 1)
    assert spool.lost == 1
    assert _drain(spool) == [b"two", b"three"]
    spool.close()


def test_a_rejected_chunk_is_kept_aside_and_does_not_come_again(tmp_path: Path) -> None:
    spool = _spool(tmp_path)
    spool.add(b"bad", 7)
    spool.add(b"good", 1)
    spool.set_aside(_next(spool))
    assert spool.rejected == 7
    assert _drain(spool) == [b"good"]
    assert [path.read_bytes() for path in (tmp_path / "rejected").iterdir()] == [b"bad"]
    spool.close()
    assert _drain(_spool(tmp_path)) == []


def test_only_a_few_rejected_chunks_are_kept(tmp_path: Path) -> None:
    spool = _spool(tmp_path)
    for number in range(20):
        spool.add(str(number).encode(), 1)
        spool.set_aside(_next(spool))
    assert len(list((tmp_path / "rejected").iterdir())) == 16


def test_a_directory_that_cannot_be_written_is_a_mistake_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserMistake, match="cannot spool to"):
        _spool(tmp_path / "file")


def test_a_chunk_is_synced_to_disk_before_it_counts(tmp_path: Path) -> None:
    spool = Spool(tmp_path, PLENTY)
    spool.add(b"one", 1)
    assert [path.read_bytes() for path in (tmp_path / spool.name).glob("*.jsonl")] == [b"one"]
