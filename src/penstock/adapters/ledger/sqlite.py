"""The store of a ledger in an SQLite file: for one machine, with nothing else to run.

Implements `ledger.store.Store`, which says who calls it and what a shared row is; `ledger/open.py` makes it.

An ordinary chunk is stored whole, as a page (see `pages.py`). Shared rows are stored one by one in the table
`penstock_ledger`, because the database must find each by its id. Rows that an older Penstock wrote are in that
table too.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import TypeVar

from penstock.adapters import private
from penstock.adapters.ledger import pages
from penstock.adapters.ledger.rows import COLUMNS, PastRequest, as_array
from penstock.adapters.ledger.store import ChunkRejected, LedgerAway, conditions
from penstock.errors import UserMistake

T = TypeVar("T")

BUSY_SECONDS = 5.0  # seconds to wait while another process locks the file
# One migration for each version; the pragma `user_version` says how many were made.
MIGRATIONS = (
    """
    CREATE TABLE penstock_ledger (
        id TEXT NOT NULL, request_id TEXT NOT NULL, tenant TEXT NOT NULL, tier TEXT NOT NULL, model TEXT NOT NULL,
        status TEXT NOT NULL, created REAL NOT NULL, completed REAL NOT NULL, shared INTEGER NOT NULL DEFAULT 0
    );
    CREATE INDEX penstock_ledger_completed ON penstock_ledger (completed);
    CREATE UNIQUE INDEX penstock_ledger_shared ON penstock_ledger (id) WHERE shared;
    CREATE TABLE penstock_ledger_chunks (spool TEXT PRIMARY KEY, last INTEGER NOT NULL) WITHOUT ROWID;
    CREATE VIEW penstock_requests AS
        SELECT id, request_id, tenant, tier, model, status, datetime(created, 'unixepoch') AS created,
            datetime(completed, 'unixepoch') AS completed, round((completed - created) * 1000, 3) AS latency_ms
        FROM penstock_ledger;
    """,
    f"""
    {pages.TABLE}
    DROP VIEW penstock_requests;
    CREATE VIEW penstock_requests AS
        WITH entry ({", ".join(COLUMNS)}) AS (
            SELECT {", ".join(COLUMNS)} FROM penstock_ledger UNION ALL {pages.UNPACKED}
        )
        SELECT id, request_id, tenant, tier, model, status, datetime(created, 'unixepoch') AS created,
            datetime(completed, 'unixepoch') AS completed, round((completed - created) * 1000, 3) AS latency_ms
        FROM entry;
    """,
)
_NEXT = """
    INSERT INTO penstock_ledger_chunks (spool, last) VALUES (?, ?)
    ON CONFLICT (spool) DO UPDATE SET last = excluded.last WHERE last < excluded.last
"""
_INSERT_SHARED = f"""
    INSERT INTO penstock_ledger ({", ".join(COLUMNS)}, shared) SELECT {pages.FIELDS}, 1 FROM json_each(?) WHERE true
    ON CONFLICT (id) WHERE shared DO NOTHING
"""
_FORGET = """
    DELETE FROM penstock_ledger WHERE rowid IN (
        SELECT rowid FROM penstock_ledger WHERE completed < ? ORDER BY completed LIMIT ?
    )
"""


class SqliteStore:
    """Implements `ledger.store.Store`."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._path = path
        self._read_only = read_only
        self._connection: sqlite3.Connection | None = None

    def write(self, spool: str, number: int, lines: bytes, *, shared: bool = False) -> int:
        insert = _insert_shared if shared else pages.insert_page

        def inserted(database: sqlite3.Connection) -> int:
            fresh = database.execute(_NEXT, (spool, number)).rowcount > 0
            return insert(database, lines) if fresh else 0

        return self._in_transaction(inserted)

    def forget(self, before: float, about: int) -> int:
        def forgotten(database: sqlite3.Connection) -> int:
            deleted = database.execute(_FORGET, (before, about)).rowcount
            return deleted + pages.forget_pages(database, before, about - deleted)

        return self._in_transaction(forgotten)

    def query(
        self,
        tenant: str | None,
        since: float | None,
        status: str | None,
        limit: int,
        request_id: str | None = None,
    ) -> Sequence[PastRequest]:
        def newest(database: sqlite3.Connection) -> list[PastRequest]:
            found = [_from_rows(database, tenant, since, status, request_id)]
            # A ledger of version 1, which an older Penstock made, has no table of pages.
            if _version(database) > 1:
                found.append(pages.past_requests(database, tenant, since, status, request_id))
            return list(islice(merge(*found, key=attrgetter("completed"), reverse=True), limit))

        if self._read_only and not self._path.exists():
            raise UserMistake(f"there is no ledger at {self._path}: say where it is with --ledger URL")
        return self._attempt(newest)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _in_transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def done(database: sqlite3.Connection) -> T:
            database.execute("BEGIN IMMEDIATE")
            try:
                result = work(database)
                database.execute("COMMIT")
            except BaseException:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise
            return result

        return self._attempt(done)

    def _attempt(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._connection is None:
                self._connection = self._opened()
            return work(self._connection)
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise LedgerAway(f"{self._path}: {error}") from error

    def _opened(self) -> sqlite3.Connection:
        if not self._read_only:
            # SQLite gives its journal files the rights of the database's file.
            private.make_file(self._path, "the ledger")
        mode = "ro" if self._read_only else "rwc"
        database = sqlite3.connect(
            f"{self._path.absolute().as_uri()}?mode={mode}",
            timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=True,
        )  # fmt: skip
        try:
            if not self._read_only:
                database.execute("PRAGMA journal_mode = WAL")
                # A chunk's file is deleted when the database has it, so the database must have it on disk.
                database.execute("PRAGMA synchronous = FULL")
            self._migrate(database)
        except BaseException:
            database.close()
            raise
        return database

    def _migrate(self, database: sqlite3.Connection) -> None:
        version = _version(database)
        if version > len(MIGRATIONS):
            raise LedgerAway(f"{self._path} was made by a newer Penstock (version {version} of the ledger)")
        if self._read_only:
            if version == 0:
                raise UserMistake(f"{self._path} holds no ledger: say where it is with --ledger URL")
            return
        while (version := _version(database)) < len(MIGRATIONS):
            database.executescript(
                f"BEGIN IMMEDIATE; {MIGRATIONS[version]} PRAGMA user_version = {version + 1}; COMMIT"
            )


def _version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _insert_shared(database: sqlite3.Connection, lines: bytes) -> int:
    """Inserts rows one by one, and returns how many were new. Raises ChunkRejected if the lines are no rows: the
    next attempt would fail as well."""
    rows = as_array(lines)
    try:
        return database.execute(_INSERT_SHARED, (rows,)).rowcount
    except (sqlite3.IntegrityError, sqlite3.DataError) as error:
        raise ChunkRejected(str(error)) from error
    except sqlite3.OperationalError as error:
        if not database.execute("SELECT json_valid(?)", (rows,)).fetchone()[0]:
            raise ChunkRejected(str(error)) from error
        raise


def _from_rows(
    database: sqlite3.Connection,
    tenant: str | None,
    since: float | None,
    status: str | None,
    request_id: str | None,
) -> Iterator[PastRequest]:
    """Returns the requests that were stored one by one, the newest first."""
    where, given = conditions(tenant, since, status, request_id, "?")
    asked = f"""
        SELECT {", ".join(COLUMNS)}, round((completed - created) * 1000, 3)
        FROM penstock_ledger {where} ORDER BY completed DESC
    """
    return (PastRequest(*row) for row in database.execute(asked, given))
