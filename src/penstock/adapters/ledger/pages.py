"""Pages: a chunk of rows as one row of an SQLite table, found by the time of its newest row. The store in SQLite
(`sqlite.py`) writes, reads and forgets them.

Rows are written by the million on the machine that serves, and a person reads some now and then. So a chunk is
stored whole, and taken apart when it is read: a table row for each request would cost the writer many times as
much.
"""

import logging
import sqlite3
from collections.abc import Iterator
from math import inf
from operator import itemgetter

import msgspec

from penstock.adapters.ledger.rows import COLUMNS, PastRequest, Row, as_array, past_request
from penstock.adapters.ledger.store import ChunkRejected

TABLE = """
    CREATE TABLE penstock_ledger_pages (newest REAL NOT NULL, count INTEGER NOT NULL, rows TEXT NOT NULL);
    CREATE INDEX penstock_ledger_pages_newest ON penstock_ledger_pages (newest);
"""
FIELDS = ", ".join(f"json_extract(value, '$[{n}]')" for n in range(len(COLUMNS)))  # of a row in an array
UNPACKED = f"SELECT {FIELDS} FROM penstock_ledger_pages, json_each(rows)"
# SQLite itself checks that the page is JSON, because Python would hold up the server's other threads meanwhile.
# SQLite is not asked to count the rows, because it would have to read all of them once more.
_INSERT = """
    INSERT INTO penstock_ledger_pages (newest, count, rows) SELECT ?1, ?2, ?3 WHERE json_valid(?3)
"""
_OLD = "SELECT rowid, count FROM penstock_ledger_pages WHERE newest < ? ORDER BY newest LIMIT ?"
_DELETE = "DELETE FROM penstock_ledger_pages WHERE rowid = ?"
_SINCE = "SELECT newest, rows FROM penstock_ledger_pages WHERE newest >= ? ORDER BY newest DESC"

log = logging.getLogger("penstock.ledger")

_decoder = msgspec.json.Decoder(list[Row])
_row_decoder = msgspec.json.Decoder(Row)
_TENANT, _STATUS, _COMPLETED, _REQUEST_ID = map(
    COLUMNS.index, ("tenant", "status", "completed", "request_id")
)
_completed = itemgetter(_COMPLETED)


def insert_page(database: sqlite3.Connection, lines: bytes) -> int:
    """Inserts a chunk, whose rows are in the order in which they ended; returns how many they are.

    Raises ChunkRejected if the lines are no rows: the next attempt would fail as well.
    """
    count = lines.count(b"\n")
    try:
        last = _row_decoder.decode(lines[lines.rfind(b"\n", 0, -1) + 1 :])
        inserted = database.execute(_INSERT, (last[_COMPLETED], count, as_array(lines))).rowcount
    except (msgspec.DecodeError, sqlite3.IntegrityError, sqlite3.DataError) as error:
        raise ChunkRejected(str(error)) from error
    if not inserted:
        raise ChunkRejected("it is not made of rows")
    return count


def forget_pages(database: sqlite3.Connection, before: float, at_least: int) -> int:
    """Deletes pages whose rows all ended before the time `before`, the oldest first, until at least `at_least` rows
    are deleted. Returns how many were."""
    forgotten = 0
    for page, count in database.execute(_OLD, (before, at_least)).fetchall():
        if forgotten >= at_least:
            break
        database.execute(_DELETE, (page,))
        forgotten += count
    return forgotten


def _rows(array: str) -> list[Row]:
    """Returns the rows of a page. A page that is JSON but not made of rows has none, so that it does not hide the
    other pages."""
    try:
        return _decoder.decode(array)
    except msgspec.DecodeError as error:
        log.error("a page of the ledger cannot be read", extra={"error": str(error)})
        return []


def past_requests(
    database: sqlite3.Connection,
    tenant: str | None,
    since: float | None,
    status: str | None,
    request_id: str | None,
) -> Iterator[PastRequest]:
    """Yields the requests, the newest first. Pages of several servers overlap in time, so a row is kept back until
    no further page can have a newer one."""
    begin = -inf if since is None else since
    waiting: list[Row] = []
    for newest, array in database.execute(_SINCE, (begin,)):
        while waiting and waiting[-1][_COMPLETED] > newest:
            yield past_request(waiting.pop())
        waiting += [
            row
            for row in _rows(array)
            if tenant in (None, row[_TENANT])
            and status in (None, row[_STATUS])
            and request_id in (None, row[_REQUEST_ID])
            and _completed(row) >= begin
        ]
        waiting.sort(key=_completed)
    yield from map(past_request, reversed(waiting))
