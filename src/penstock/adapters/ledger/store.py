"""What the ledger asks of a database (`sqlite`, `postgres`). Called from one thread, which may wait.

A chunk is numbered within its spool, and a spool is delivered in order. The transaction that brings the rows also
stores the number as the last of its spool. A chunk that is delivered again, because its success was not heard of,
is recognised by its number and changes nothing.

Rows that a gateway was told of by Redis are shared: another gateway may have spooled them too, before it died. The
database takes each of these by its id once. That costs an index, so it is done for shared rows alone.
"""

from collections.abc import Sequence
from typing import Protocol

from penstock.adapters.ledger.rows import ChunkRejected as ChunkRejected
from penstock.adapters.ledger.rows import PastRequest
from penstock.errors import PenstockError


class LedgerAway(PenstockError):
    """The database does not answer, or cannot take rows now: the same chunk is tried again later."""

    code = "LEDGER_AWAY"


class Store(Protocol):
    def write(self, spool: str, number: int, lines: bytes, *, shared: bool = False) -> int:
        """Writes all rows of a chunk or none; returns how many were new. Raises LedgerAway or ChunkRejected."""
        ...

    def forget(self, before: float, about: int) -> int:
        """Deletes `about` so many rows that ended before then, and returns how many.

        It may be more where a chunk is deleted as a whole. Raises LedgerAway.
        """
        ...

    def query(
        self, tenant: str | None, since: float | None, status: str | None, limit: int
    ) -> Sequence[PastRequest]:
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
