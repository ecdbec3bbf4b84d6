"""Rows in SQLite by the chunk: a page is one JSON array, found by the time of its newest row.

Rows are written by the million on the machine that serves, and read by a person now and then, so it is the reader
who takes them apart. A table row for each would cost the writer many times as much.
"""

import logging
import sqlite3
from collections.abc import Iterator
from math import inf
from operator import itemgetter

import msgspec

from penstock.adapters.ledger.rows import COLUMNS, Entry, Row, as_array, entry
from penstock.adapters.ledger.store import ChunkRejected

TABLE = """
    CREATE TABLE penstock_ledger_pages (newest REAL NOT NULL, count INTEGER NOT NULL, rows TEXT NOT NULL);
    CREATE INDEX penstock_ledger_pages_newest ON penstock_ledger_pages (newest);
"""
FIELDS = ", ".join(f"json_extract(value, '$[{n}]')" for n in range(len(COLUMNS)))  # of a row in an array
UNPACKED = f"SELECT {FIELDS} FROM penstock_ledger_pages, json_each(rows)"
# Whether it is JSON at all SQLite finds out by itself, in its own time: a look at each row here would keep the
# server from its work meanwhile. How many rows that makes is not asked: all of it would be read once more.
_INSERT = """
    INSERT INTO penstock_ledger_pages (newest, count, rows) SELECT ?1, ?2, ?3 WHERE json_valid(?3)
"""
_OLD = "SELECT rowid, count FROM penstock_ledger_pages WHERE newest < ? ORDER BY newest LIMIT ?"
_DELETE = "DELETE FROM penstock_ledger_pages WHERE rowid = ?"
_SINCE = "SELECT newest, rows FROM penstock_ledger_pages WHERE newest >= ? ORDER BY newest DESC"

log = logging.getLogger("penstock.ledger")

_decoder = msgspec.json.Decoder(list[Row])
_row_decoder = msgspec.json.Decoder(Row)
_TENANT, _STATUS, _COMPLETED = map(COLUMNS.index, ("tenant", "status", "completed"))
_completed = itemgetter(_COMPLETED)


def insert_page(database: sqlite3.Connection, lines: bytes) -> int:
    """How many rows it has: they are in the order in which they ended. What is no chunk now will never be one."""
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
    """Pages whose rows all ended before then, until that were so many rows; how many it was."""
    forgotten = 0
    for page, count in database.execute(_OLD, (before, at_least)).fetchall():
        if forgotten >= at_least:
            break
        database.execute(_DELETE, (page,))
        forgotten += count
    return forgotten


def _rows(array: str) -> list[Row]:
    """None of a page that is JSON, but not made of rows: one bad page must not hide the others."""
    try:
        return _decoder.decode(array)
    except msgspec.DecodeError as error:
        log.error("a page of the ledger cannot be read", extra={"error": str(error)})
        return []


def entries(
    database: sqlite3.Connection, tenant: str | None, since: float | None, status: str | None
) -> Iterator[Entry]:
    """The newest first. The pages of several servers overlap: a row waits until no page can have a newer one."""
    begin = -inf if since is None else since
    waiting: list[Row] = []
    for newest, array in database.execute(_SINCE, (begin,)):
        while waiting and waiting[-1][_COMPLETED] > newest:
            yield entry(waiting.pop())
        waiting += [
            row
            for row in _rows(array)
            if tenant in (None, row[_TENANT]) and status in (None, row[_STATUS]) and _completed(row) >= begin
        ]
        waiting.sort(key=_completed)
    yield from map(entry, reversed(waiting))
