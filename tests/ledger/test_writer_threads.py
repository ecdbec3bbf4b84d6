"""The two threads of the ledger: whatever either raises, it comes back, and the rows that come then are written."""

import logging
import time
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest
from ledger_kit import PATIENCE, missing_and_doubled, row

from penstock.adapters.ledger.chunk import Chunk
from penstock.adapters.ledger.rows import to_lines
from penstock.adapters.ledger.spool import Spool
from penstock.adapters.ledger.sqlite import SqliteStore
from penstock.adapters.ledger.writer import OnFate, Writer


class Broken(Spool):
    """A spool with a mistake in it, which shows once: in the method that is named."""

    def __init__(self, directory: Path, breaks: str) -> None:
        super().__init__(directory, 2**20, sync=False)
        self._breaks = breaks
        self.broke = Event()

    def add(self, lines: bytes, rows: int, *, shared: bool = False, on_fate: OnFate | None = None) -> None:
        self._break("add")
        super().add(lines, rows, shared=shared, on_fate=on_fate)

    def oldest(self, seconds: float) -> Chunk | None:
        self._break("oldest")
        return super().oldest(seconds)

    def _break(self, method: str) -> None:
        if method == self._breaks and not self.broke.is_set():
            self.broke.set()
            raise ZeroDivisionError


@pytest.mark.parametrize(("breaks", "thread"), [("add", "ledger spool"), ("oldest", "ledger database")])
def test_a_thread_that_raises_begins_again_and_writes_what_comes_then(
    tmp_path: Path, breaks: str, thread: str, caplog: pytest.LogCaptureFixture
) -> None:
    spool, store = Broken(tmp_path / "spool", breaks), SqliteStore(tmp_path / "ledger.db")
    fates: list[bool] = []
    writer = Writer(spool, store, None, time.time)
    with caplog.at_level(logging.ERROR):
        writer.start()
        writer.hand(to_lines([row(0)]), 1, fates.append)
        assert spool.broke.wait(PATIENCE)
        writer.hand(to_lines([row(1)]), 1, fates.append)
        writer.close(PATIENCE)
    assert f"{thread} has ended and is started again" in caplog.text
    assert fates[-1], "the rows after the mistake are safe"
    store = SqliteStore(tmp_path / "ledger.db")
    with closing(store):
        told_again = [0] if not fates[0] else []  # rows that were given back are their giver's to bring again
        written = [number for number in range(2) if number not in told_again]
        assert missing_and_doubled(store, written) == (0, 0)
