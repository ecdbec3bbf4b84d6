"""What the ledger asks of a database. Called from one thread, which may wait; nothing here knows the event loop.

A chunk is numbered within its spool, and a spool is delivered in order. The database remembers each spool's last
number in the transaction that brings the rows: what is delivered again, because nobody heard that it was done, is
known by its number and changes nothing.

Rows that Redis told of may be in the spools of several gateways, since one that died may have got as far as its
disk: they are shared, and the database takes each by its id once. That costs an index, so it is for those alone.
"""

from collections.abc import Sequence
from typing import Protocol

from penstock.adapters.ledger.rows import ChunkRejected as ChunkRejected
from penstock.adapters.ledger.rows import Entry
from penstock.errors import PenstockError


class LedgerAway(PenstockError):
    """The database does not answer, or cannot take rows now: the same chunk is tried again later."""

    code = "LEDGER_AWAY"


class Store(Protocol):
    def write(self, spool: str, number: int, lines: bytes, *, shared: bool = False) -> int:
        """All rows of a chunk, or none; how many were not there already. Raises LedgerAway or ChunkRejected."""
        ...

    def forget(self, before: float, about: int) -> int:
        """Delete rows that ended before then, about so many: fewer if there are no more, and more by the rest of a
        chunk where chunks go as a whole, with their last row. How many it was. Raises LedgerAway."""
        ...

    def query(
        self, tenant: str | None, since: float | None, status: str | None, limit: int
    ) -> Sequence[Entry]:
        """The newest first. Raises LedgerAway, or UserMistake where there is no ledger to read."""
        ...

    def close(self) -> None:
        """Never raises; the next call opens it again."""
        ...


def conditions(
    tenant: str | None, since: float | None, status: str | None, mark: str
) -> tuple[str, list[str | float]]:
    """The WHERE of a query, and its arguments; `mark` is how the database writes the n-th of them."""
    asked = [("tenant =", tenant), ("completed >=", since), ("status =", status)]
    given = [(test, value) for test, value in asked if value is not None]
    tests = [f"{test} {mark.format(n)}" for n, (test, _) in enumerate(given, 1)]
    return f"WHERE {' AND '.join(tests)}" if tests else "", [value for _, value in given]
