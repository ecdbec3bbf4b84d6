"""The contract between the ledger and a database. `sqlite.py` and `postgres.py` implement it. `writer.py` writes
through it from one thread of its own, and `roles/ledger.py` reads through it for `penstock requests` and `penstock
explain`.

A chunk is numbered within its spool, and a spool is delivered in order. The transaction that brings the rows also
stores the number as the last of its spool. If the answer to a delivery is lost, the chunk is delivered again. The
database then recognises it by its number and changes nothing.

The ends of tasks are told through Redis, where several gateways may read them. Rows of these are shared: another
gateway may have spooled the same ones before it died. The database takes each of them by its id, once. That costs
an index, so it is done for shared rows alone.
"""

from collections.abc import Sequence
from typing import Protocol

from penstock.adapters.ledger.rows import ChunkRejected as ChunkRejected
from penstock.adapters.ledger.rows import PastRequest
from penstock.errors import PenstockError


class LedgerAway(PenstockError):
    """The database does not answer, or cannot take rows now. The same chunk is tried again later."""

    code = "LEDGER_AWAY"


class Store(Protocol):
    """One database. A call may wait, so no event loop may run in the thread that calls."""

    def write(self, spool: str, number: int, lines: bytes, *, shared: bool = False) -> int:
        """Writes all rows of a chunk or none; returns how many were new. Raises LedgerAway or ChunkRejected."""
        ...

    def forget(self, before: float, about: int) -> int:
        """Deletes rows that ended before the time `before`, the oldest first, and returns how many. There are
        `about` at most, or a few more where a page is deleted as a whole. Raises LedgerAway."""
        ...

    def query(
        self,
        tenant: str | None,
        since: float | None,
        status: str | None,
        limit: int,
        request_id: str | None = None,
    ) -> Sequence[PastRequest]:
        """Returns requests that have ended, the newest first, `limit` at most. None as another argument means any.
        Raises LedgerAway, or UserMistake where there is no ledger to read."""
        ...

    def close(self) -> None:
        """Closes the connection. Never raises. The next call opens it again."""
        ...


def conditions(
    tenant: str | None, since: float | None, status: str | None, request_id: str | None, mark: str
) -> tuple[str, list[str | float]]:
    """Returns the WHERE of a query and its arguments. `mark`: how the database writes the n-th argument."""
    asked = [("tenant =", tenant), ("completed >=", since), ("status =", status)]
    asked.append(("request_id =", request_id))
    given = [(test, value) for test, value in asked if value is not None]
    tests = [f"{test} {mark.format(n)}" for n, (test, _) in enumerate(given, 1)]
    return f"WHERE {' AND '.join(tests)}" if tests else "", [value for _, value in given]
