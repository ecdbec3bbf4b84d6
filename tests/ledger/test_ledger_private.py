"""The ledger names tenants and what they asked: its files are for the server's user alone."""

import os
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from ledger_kit import row

from penstock.adapters.ledger.rows import to_lines
from penstock.adapters.ledger.spool import Spool
from penstock.adapters.ledger.sqlite import SqliteStore


@pytest.fixture(autouse=True)
def careless() -> Iterator[None]:
    """A umask that takes nothing away."""
    before = os.umask(0)
    yield
    os.umask(before)


def rights(root: Path) -> dict[str, int]:
    return {
        str(path.relative_to(root)): stat.S_IMODE(path.stat().st_mode)
        for path in root.rglob("*")
        if path.is_file() or path.is_dir()
    }


def test_the_file_of_sqlite_and_those_beside_it_are_private(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "ledger.db")) as store:
        store.write("s", 1, to_lines([row(1)]))
        assert rights(tmp_path) == {"ledger.db": 0o600, "ledger.db-shm": 0o600, "ledger.db-wal": 0o600}


def test_a_ledger_that_others_can_read_keeps_its_rights_and_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "ledger.db"
    path.touch(mode=0o644)
    with closing(SqliteStore(path)) as store:
        store.write("s", 1, to_lines([row(1)]))
        assert rights(tmp_path)["ledger.db"] == 0o644
    assert caplog.messages == [f"every user of this machine can read the ledger: chmod 600 {path}"]


def test_the_spool_its_folders_and_what_was_set_aside_are_private(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "var" / "spool", 1 << 20)
    spool.add(to_lines([row(1)]), 1)
    refused = spool.oldest(0.0)
    assert refused is not None
    spool.set_aside(refused)
    spool.add(to_lines([row(2)]), 1)
    found = rights(tmp_path)
    assert len(found) == 7  # three folders and the home; its lock, a chunk, and the one that was set aside
    assert {path: mode for path, mode in found.items() if mode not in (0o600, 0o700)} == {}
    assert {mode for path, mode in found.items() if (tmp_path / path).is_dir()} == {0o700}
    spool.close()
