"""What every store owes the ledger, shown on SQLite and on a real PostgreSQL."""

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import astuple
from pathlib import Path

import pytest
from ledger_kit import EVERYTHING, PATIENCE, missing_and_doubled, recording, row

from penstock.adapters.ledger import sqlite
from penstock.adapters.ledger.open import open_store
from penstock.adapters.ledger.rows import to_lines
from penstock.adapters.ledger.store import ChunkRejected, LedgerAway, Store
from penstock.errors import UserMistake
from postgres_server import PostgresServer, postgres_server
from redis_servers import becomes


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database of its own, or a schema of its own in one."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'ledger.db'}"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.fresh()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(open_store(url)) as store:
        yield store


def test_what_is_written_is_read_back_the_newest_first(store: Store) -> None:
    assert store.write("s", 1, to_lines([row(1, completed=10.0), row(2, completed=20.0)]))
    newest, oldest = store.query(None, None, None, 10)
    assert astuple(newest) == ("k2", "r2", "acme", "paid", "embed", "SUCCESS", 19.75, 20.0, 250.0)
    assert oldest.id == "k1"


def test_a_chunk_that_is_delivered_again_changes_nothing(store: Store) -> None:
    lines = to_lines([row(1), row(2)])
    assert store.write("s", 1, lines)
    assert not store.write("s", 1, lines)
    assert missing_and_doubled(store, [1, 2]) == (0, 0)


def test_a_chunk_older_than_the_last_one_of_its_spool_is_known(store: Store) -> None:
    assert store.write("s", 1, to_lines([row(1)]))
    assert store.write("s", 3, to_lines([row(3)]))
    assert not store.write("s", 1, to_lines([row(1)]))
    assert store.write("another", 1, to_lines([row(2)]))
    assert missing_and_doubled(store, [1, 2, 3]) == (0, 0)


def test_a_row_that_several_were_told_of_is_taken_once(store: Store) -> None:
    assert store.write("dead", 1, to_lines([row(1), row(2)]), shared=True) == 2
    assert store.write("living", 1, to_lines([row(2), row(3), row(3)]), shared=True) == 1
    assert store.write("living", 2, to_lines([row(4)])) == 1
    assert missing_and_doubled(store, [1, 2, 3, 4]) == (0, 0)
    assert store.forget(2000.0, 99) == 4


def test_rows_are_found_by_tenant_time_and_status_and_no_more_than_asked_for(store: Store) -> None:
    store.write(
        "s",
        1,
        to_lines(
            [
                row(1, tenant="acme", completed=10.0),
                row(2, tenant="acme", completed=20.0, status="DEADLINE_EXCEEDED"),
                row(3, tenant="bolt", completed=30.0),
                row(4, tenant="acme", completed=40.0),
            ]
        ),
    )

    def ids(
        tenant: str | None = None, since: float | None = None, status: str | None = None, limit: int = 99
    ) -> list[str]:
        return [entry.id for entry in store.query(tenant, since, status, limit)]

    assert ids("acme") == ["k4", "k2", "k1"]
    assert ids("acme", since=20.0) == ["k4", "k2"]
    assert ids("acme", since=11.0, status="SUCCESS") == ["k4"]
    assert ids(status="DEADLINE_EXCEEDED") == ["k2"]
    assert ids(limit=2) == ["k4", "k3"]
    assert [entry.id for entry in store.query("acme", None, None, 9, "r2")] == ["k2"]
    assert store.query("bolt", None, None, 9, "r2") == []
    assert ids("nobody") == []


def test_the_oldest_rows_are_forgotten_in_steps(store: Store) -> None:
    for number in range(10):
        store.write("s", number + 1, to_lines([row(number, completed=float(number))]))
    assert store.forget(7.0, 4) == 4
    assert [entry.id for entry in store.query(None, None, None, 99)][-1] == "k4"
    assert store.forget(7.0, 4) == 3
    assert store.forget(7.0, 4) == 0
    assert missing_and_doubled(store, [7, 8, 9]) == (0, 0)


def test_rows_beyond_their_age_go_while_a_server_runs(store: Store, tmp_path: Path) -> None:
    store.write("s", 1, to_lines([row(1, completed=time.time() - 3700)]))
    store.write("s", 2, to_lines([row(2, completed=time.time() - 60)]))
    store.close()

    async def body() -> None:
        async with recording(store, tmp_path / "spool", retention=3600.0) as recorder:
            await becomes(lambda: recorder.state.forgotten == 1)

    asyncio.run(body())
    assert missing_and_doubled(store, [2]) == (0, 0)


@pytest.mark.parametrize(
    "name",
    [
        '"',
        "\\",
        '\\"',
        "a,b",
        "],[",
        ']\n["',
        "",
        "NULL",
        "\\.",
        "\\N",
        "äöü 🜚",
        "'; drop table x",
        "\\u0000",
    ],
)
def test_any_name_is_kept_as_it_is_but_for_control_characters(store: Store, name: str) -> None:
    store.write("s", 1, to_lines([row(1, tenant=name), row(2)]))
    store.write("s", 2, to_lines([row(3, tenant=name)]), shared=True)
    kept = name.replace("\n", "\N{REPLACEMENT CHARACTER}")
    assert [entry.tenant for entry in store.query(kept, None, None, 9)] == [kept] * 2


@pytest.mark.parametrize("name", ["a\x00b", "a\x1fb", "a\ud800b"])
def test_what_no_database_takes_is_replaced_and_costs_no_row(store: Store, name: str) -> None:
    store.write("s", 1, to_lines([row(1, tenant=name), row(2)]))
    assert missing_and_doubled(store, [1, 2]) == (0, 0)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("lines", [b"[1, 2\n", b'["k1"]\n', b"rubbish\n"])
def test_what_is_no_chunk_is_rejected_whole_and_the_next_is_taken(
    store: Store, lines: bytes, shared: bool
) -> None:
    with pytest.raises(ChunkRejected):
        store.write("s", 1, to_lines([row(1)]) + lines, shared=shared)
    assert store.write("s", 2, to_lines([row(2)]))
    assert missing_and_doubled(store, [2]) == (0, 0)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("lines", [b"[1, 2\n", b"rubbish\n", b"\n", b"\x00\x00\n", b"\xff\n"])
def test_nor_is_one_that_is_broken_in_the_middle(store: Store, lines: bytes, shared: bool) -> None:
    with pytest.raises(ChunkRejected):
        store.write("s", 1, to_lines([row(1)]) + lines + to_lines([row(3)]), shared=shared)
    assert missing_and_doubled(store, []) == (0, 0)


def test_a_page_that_cannot_be_read_hides_no_other(store: Store, url: str) -> None:
    store.write("s", 1, to_lines([row(1)]))
    with suppress(ChunkRejected):  # by PostgreSQL
        store.write("s", 2, to_lines([row(2)]) + b"[1,2]\n" + to_lines([row(2)]))
    store.write("s", 3, to_lines([row(3)]))
    assert missing_and_doubled(store, [1, 3]) == (0, 0)


def test_several_that_find_an_empty_database_make_its_tables_once(url: str) -> None:
    def write(number: int) -> int:
        with closing(open_store(url)) as store:
            ends = time.monotonic() + PATIENCE
            while True:  # SQLite may have to be asked again
                try:
                    return store.write(f"s{number}", 1, to_lines([row(number)]))
                except LedgerAway:
                    assert time.monotonic() < ends, "the database stayed away"
                    time.sleep(0.005)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(write, range(4)))
    with closing(open_store(url)) as store:
        assert missing_and_doubled(store, range(4)) == (0, 0)


def test_the_rows_of_several_servers_are_read_in_one_order(store: Store) -> None:
    for spool, times in {"a": (1.0, 4.0, 6.0), "b": (2.0, 3.0, 7.0), "c": (5.0,)}.items():
        store.write(spool, 1, to_lines([row(int(time), completed=time) for time in times]))
    store.write("d", 1, to_lines([row(8, completed=4.5)]), shared=True)
    ids = [entry.id for entry in store.query(None, 2.0, None, EVERYTHING)]
    assert ids == ["k7", "k6", "k5", "k8", "k4", "k3", "k2"]


def test_the_rows_that_an_older_penstock_wrote_to_sqlite_stay_and_are_read(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(f"{sqlite.MIGRATIONS[0]} PRAGMA user_version = 1")
        database.execute(f"INSERT INTO penstock_ledger VALUES ({', '.join('?' * 9)})", (*row(1), 0))
        database.commit()
    with closing(open_store(f"sqlite:///{path}", read_only=True)) as reader:
        assert missing_and_doubled(reader, [1]) == (0, 0)
    with closing(open_store(f"sqlite:///{path}")) as store:
        store.write("s", 1, to_lines([row(2)]))
        assert missing_and_doubled(store, [1, 2]) == (0, 0)


def test_everybody_can_read_an_sqlite_ledger_in_sql(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with closing(open_store(f"sqlite:///{path}")) as store:
        store.write("s", 1, to_lines([row(1), row(2)]))
        store.write("s", 2, to_lines([row(3)]), shared=True)
    with closing(sqlite3.connect(path)) as database:
        found = database.execute(
            "SELECT id, tenant, completed, latency_ms FROM penstock_requests ORDER BY id"
        )
        assert found.fetchall() == [(f"k{n}", "acme", "1970-01-01 00:16:40", 250.0) for n in (1, 2, 3)]


def test_sqlite_tables_of_a_newer_version_are_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 99")
    with closing(open_store(f"sqlite:///{path}")) as store, pytest.raises(LedgerAway, match="newer Penstock"):
        store.write("s", 1, to_lines([row(1)]))


def test_postgres_tables_of_a_newer_version_are_not_touched(postgres: PostgresServer) -> None:
    url = postgres.fresh()
    schema = url.partition("search_path=")[2]
    with closing(open_store(url)) as store:
        store.write("s", 1, to_lines([row(1)]))
    postgres.execute(f"UPDATE {schema}.penstock_ledger_version SET version = 99")
    with closing(open_store(url)) as store, pytest.raises(LedgerAway, match="newer Penstock"):
        store.write("s", 2, to_lines([row(2)]))


def test_a_reader_makes_no_tables_and_says_that_there_is_no_ledger(url: str) -> None:
    for _ in range(2):
        with closing(open_store(url, read_only=True)) as store, pytest.raises(UserMistake, match="no ledger"):
            store.query(None, None, None, EVERYTHING)


def test_a_reader_sees_what_was_written(store: Store, url: str) -> None:
    store.write("s", 1, to_lines([row(1)]))
    with closing(open_store(url, read_only=True)) as reader:
        assert missing_and_doubled(reader, [1]) == (0, 0)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ledger.db",
        "sqlite://",
        "sqlite:///",
        "mysql://a/b",
        "postgresql",
        "postgresql://",
        "postgresql://a:b/c",
    ],
)
def test_what_is_no_ledgers_url_is_a_mistake_that_says_what_is_one(url: str) -> None:
    with pytest.raises(UserMistake, match="sqlite:///"):
        open_store(url)


def test_a_database_that_is_not_there_is_away_and_its_password_is_not_told(tmp_path: Path) -> None:
    with closing(open_store("postgresql://penstock:secret@127.0.0.1:1/ledger")) as store:
        with pytest.raises(LedgerAway) as away:
            store.write("s", 1, to_lines([row(1)]))
        assert "127.0.0.1:1/ledger" in away.value.message
        assert "secret" not in away.value.message
    with closing(open_store(f"sqlite:///{tmp_path}/missing/ledger.db")) as store, pytest.raises(LedgerAway):
        store.write("s", 1, to_lines([row(1)]))
