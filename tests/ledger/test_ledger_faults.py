"""The database goes away under a stream of rows, in every way we know: then none is missing or doubled."""

import asyncio
import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from threading import Event

import pytest
from ledger_kit import EVERYTHING, Refusing, missing_and_doubled, recording, replies

from penstock.adapters.ledger import sqlite
from penstock.adapters.ledger.postgres import PostgresStore
from penstock.adapters.ledger.recorder import Recorder
from penstock.adapters.ledger.sqlite import SqliteStore
from penstock.adapters.ledger.store import LedgerAway
from postgres_server import PostgresServer, postgres_server
from redis_servers import becomes

BATCH = 100
TIME_LIMIT = 2.0  # for a server that stands still; one that goes on must be able to keep to it


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


class Stream:
    """Replies, a batch after the other, each a chunk of its own."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.recorded = 0

    def batch(self, size: int = BATCH) -> None:
        self._recorder.answered(replies(range(self.recorded, self.recorded + size)), time.monotonic())
        self._recorder.flush()
        self.recorded += size

    async def flow(self, batches: int) -> None:
        for _ in range(batches):
            self.batch()
            await asyncio.sleep(0.002)

    async def is_written(self) -> None:
        def all_there() -> bool:
            state = self._recorder.state
            return state.waiting == 0 and not state.away

        await becomes(all_there)


async def _until_away(recorder: Recorder) -> None:
    await becomes(lambda: recorder.state.away != "")


async def _until_back(recorder: Recorder) -> None:
    await becomes(lambda: recorder.state.away == "")


async def _until_on_disk(spool: Path, chunks: int) -> None:
    await becomes(lambda: len(list(spool.glob("*/*.jsonl"))) == chunks)


def test_postgres_killed_in_the_middle_of_transactions_loses_and_doubles_nothing(
    postgres: PostgresServer, tmp_path: Path, chaos_seed: int
) -> None:
    chance = random.Random(chaos_seed)
    store = PostgresStore(postgres.fresh())

    async def body() -> int:
        async with recording(store, tmp_path) as recorder:
            stream = Stream(recorder)
            for _ in range(3):
                await stream.flow(chance.randrange(5, 30))
                await asyncio.to_thread(postgres.kill)
                await stream.flow(5)
                await _until_away(recorder)
                await asyncio.to_thread(postgres.start)
                await _until_back(recorder)
            await stream.is_written()
            assert recorder.state.lost == recorder.state.rejected == 0
            return stream.recorded

    recorded = asyncio.run(body())
    with closing(store):
        assert missing_and_doubled(store, range(recorded)) == (0, 0)


def test_postgres_stopped_and_going_on_later_loses_and_doubles_nothing(
    postgres: PostgresServer, tmp_path: Path, chaos_seed: int
) -> None:
    chance = random.Random(chaos_seed)
    url = postgres.fresh()
    store = PostgresStore(url, time_limit=TIME_LIMIT)

    async def body() -> int:
        async with recording(store, tmp_path) as recorder:
            stream = Stream(recorder)
            for _ in range(3):
                await stream.flow(chance.randrange(5, 30))
                postgres.freeze()
                await stream.flow(5)
                await _until_away(recorder)
                postgres.thaw()
                await _until_back(recorder)
            await stream.is_written()
            return stream.recorded

    recorded = asyncio.run(body())
    with closing(PostgresStore(url)) as reader:
        assert missing_and_doubled(reader, range(recorded)) == (0, 0)


def test_postgres_with_a_full_disk_gets_all_rows_once_there_is_room(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    store = PostgresStore(postgres.fresh())

    async def body() -> int:
        async with recording(store, tmp_path) as recorder:
            stream = Stream(recorder)
            await stream.flow(2)
            await stream.is_written()
            postgres.fill(largest_file=2 * 2**20)
            while not recorder.state.away:
                stream.batch(1000)
                await asyncio.sleep(0.02)
            await stream.flow(5)
            postgres.make_room()
            await stream.is_written()
            assert recorder.state.rejected == 0
            return stream.recorded

    recorded = asyncio.run(body())
    with closing(store):
        assert missing_and_doubled(store, range(recorded)) == (0, 0)


def test_a_server_that_starts_without_its_database_writes_all_rows_when_it_comes(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    store = PostgresStore(postgres.fresh())
    postgres.kill()

    async def body() -> None:
        async with recording(store, tmp_path) as recorder:
            stream = Stream(recorder)
            await stream.flow(5)
            await _until_away(recorder)
            await asyncio.to_thread(postgres.start)
            await stream.is_written()

    asyncio.run(body())
    with closing(store):
        assert missing_and_doubled(store, range(5 * BATCH)) == (0, 0)


def test_sqlite_locked_by_another_process_gets_all_rows_once_it_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.05)
    path = tmp_path / "ledger.db"
    store = SqliteStore(path)

    async def body() -> None:
        async with recording(store, tmp_path / "spool") as recorder:
            stream = Stream(recorder)
            await stream.flow(5)
            await stream.is_written()
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                await stream.flow(5)
                await _until_away(recorder)
            await stream.is_written()

    asyncio.run(body())
    with closing(store):
        assert missing_and_doubled(store, range(10 * BATCH)) == (0, 0)


def test_sqlite_on_a_full_disk_gets_all_rows_once_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    store = FullAtTimes(path)

    async def body() -> int:
        async with recording(store, tmp_path / "spool") as recorder:
            stream = Stream(recorder)
            await stream.flow(2)
            await stream.is_written()
            store.full = True
            while not recorder.state.away:
                stream.batch(1000)
                await asyncio.sleep(0.01)
            store.full = False
            await stream.is_written()
            return stream.recorded

    recorded = asyncio.run(body())
    with closing(store):
        assert missing_and_doubled(store, range(recorded)) == (0, 0)


class FullAtTimes(SqliteStore):
    """SQLite's own limit of pages: beyond it, it says what it says on a full disk."""

    full = False

    def _opened(self) -> sqlite3.Connection:
        database = super()._opened()
        database.execute(f"PRAGMA max_page_count = {60 if self.full else 2**30}")
        return database

    def write(self, spool: str, number: int, lines: bytes, *, shared: bool = False) -> int:
        if self.full:
            self.close()  # the limit is the connection's
        return super().write(spool, number, lines, shared=shared)


class Deaf(SqliteStore):
    """Every second time it does what it was asked to, and the answer is lost."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._times = count()

    def write(self, spool: str, number: int, lines: bytes, *, shared: bool = False) -> int:
        fresh = super().write(spool, number, lines, shared=shared)
        if next(self._times) % 2 == 0:
            raise LedgerAway("the answer was lost")
        return fresh


class Hanging(SqliteStore):
    """Takes a chunk and does not come back until it is let."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.asked, self.go_on, self.ended = Event(), Event(), Event()

    def write(self, spool: str, number: int, lines: bytes, *, shared: bool = False) -> int:
        self.asked.set()
        self.go_on.wait()
        return super().write(spool, number, lines, shared=shared)

    def close(self) -> None:
        super().close()
        if self.go_on.is_set():
            self.ended.set()


def test_while_the_database_hangs_rows_go_on_to_the_disk(tmp_path: Path) -> None:
    store = Hanging(tmp_path / "ledger.db")

    async def body() -> None:
        async with recording(store, tmp_path / "spool") as recorder:
            stream = Stream(recorder)
            await stream.flow(1)
            await asyncio.to_thread(store.asked.wait)
            await stream.flow(9)
            await _until_on_disk(tmp_path / "spool", 10)
            store.go_on.set()

    asyncio.run(body())
    with closing(store):
        assert missing_and_doubled(store, range(10 * BATCH)) == (0, 0)


def test_a_server_may_end_while_its_database_hangs_and_what_is_written_late_is_not_doubled(
    tmp_path: Path,
) -> None:
    hanging, store = Hanging(tmp_path / "ledger.db"), SqliteStore(tmp_path / "ledger.db")

    async def body() -> None:
        # In these seconds the thread that spools must end; the other one is waited for in vain.
        async with recording(hanging, tmp_path / "spool", seconds=3.0) as recorder:
            await Stream(recorder).flow(3)
            await asyncio.to_thread(hanging.asked.wait)
            await _until_on_disk(tmp_path / "spool", 3)
        async with recording(store, tmp_path / "spool") as recorder:
            await becomes(lambda: recorder.state.waiting == 0)
        hanging.go_on.set()
        await asyncio.to_thread(hanging.ended.wait)

    asyncio.run(body())
    with closing(store):
        assert missing_and_doubled(store, range(3 * BATCH)) == (0, 0)


def test_a_commit_whose_answer_is_lost_is_not_made_twice(tmp_path: Path) -> None:
    store = Deaf(tmp_path / "ledger.db")

    async def body() -> None:
        async with recording(store, tmp_path / "spool") as recorder:
            stream = Stream(recorder)
            await stream.flow(5)
            await stream.is_written()

    asyncio.run(body())
    with closing(store):
        assert missing_and_doubled(store, range(5 * BATCH)) == (0, 0)


def test_a_database_that_is_away_for_long_costs_the_oldest_rows_and_says_so(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "ledger.db")

    async def body() -> int:
        async with recording(Refusing(), tmp_path / "spool", max_bytes=10 * 16384) as recorder:
            stream = Stream(recorder)
            await stream.flow(20)
        lost = recorder.state.lost  # when all are spooled
        async with recording(store, tmp_path / "spool") as recorder:
            await becomes(lambda: recorder.state.waiting == 0)
        return lost

    lost = asyncio.run(body())
    assert lost > 0
    with closing(store):
        assert missing_and_doubled(store, range(20 * BATCH)) == (lost, 0)
        newest = {f"k{number}" for number in range(15 * BATCH, 20 * BATCH)}
        assert newest <= {entry.id for entry in store.query(None, None, None, EVERYTHING)}
