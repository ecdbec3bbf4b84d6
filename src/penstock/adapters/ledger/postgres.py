"""The store of a ledger in PostgreSQL: for many machines.

Implements `ledger.store.Store`; `ledger/open.py` makes it. The caller is one thread that runs no event loop: the
ledger's writer thread or, to read, `penstock requests` and `penstock explain`. The store runs an event loop of its
own in that thread.

Each chunk is written in one transaction: by COPY, or by INSERT if its rows are shared between gateways. After any
error the connection is thrown away. No ROLLBACK is sent, because the server may be hanging. The server ends the
transaction itself after the same time limit.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

import asyncpg

from penstock.adapters.ledger.rows import COLUMNS, PastRequest, as_array, as_csv
from penstock.adapters.ledger.store import ChunkRejected, LedgerAway, conditions
from penstock.adapters.private import shown_url
from penstock.errors import UserMistake

T = TypeVar("T")
Connection = Any  # asyncpg comes without types
Work = Callable[[Connection], Awaitable[T]]

TIME_LIMIT = 10.0  # seconds for one transaction
_LETTING_GO = 0.5  # seconds for a cancelled attempt to end
# Begins a transaction that the server ends by itself after the time limit. A transaction that we stopped waiting
# for may still be running on the server when the next one begins.
_BEGIN = """
    BEGIN; SET LOCAL statement_timeout = {0}; SET LOCAL lock_timeout = {0};
    SET LOCAL idle_in_transaction_session_timeout = {0}
"""
# An advisory lock, so that one process at a time makes tables. The number spells the name in ASCII.
_LOCK = 0x70656E73746F636B
# One migration for each version; the table `penstock_ledger_version` says how many were made.
MIGRATIONS = (
    """
    CREATE TABLE penstock_ledger (
        id text NOT NULL, request_id text NOT NULL, tenant text NOT NULL, tier text NOT NULL, model text NOT NULL,
        status text NOT NULL, created double precision NOT NULL, completed double precision NOT NULL,
        shared boolean NOT NULL DEFAULT false
    );
    CREATE INDEX penstock_ledger_tenant ON penstock_ledger (tenant, completed);
    CREATE INDEX penstock_ledger_completed ON penstock_ledger (completed);
    CREATE UNIQUE INDEX penstock_ledger_shared ON penstock_ledger (id) WHERE shared;
    CREATE TABLE penstock_ledger_chunks (spool text PRIMARY KEY, last bigint NOT NULL);
    CREATE VIEW penstock_requests AS
        SELECT id, request_id, tenant, tier, model, status, to_timestamp(created) AS created,
            to_timestamp(completed) AS completed, round(((completed - created) * 1000)::numeric, 3) AS latency_ms
        FROM penstock_ledger;
    """,
)
_NEXT = """
    INSERT INTO penstock_ledger_chunks AS known (spool, last) VALUES ($1, $2)
    ON CONFLICT (spool) DO UPDATE SET last = excluded.last WHERE known.last < excluded.last
    RETURNING last
"""
_FIELDS = ", ".join(
    f"(value->>{n})::float8" if name in ("created", "completed") else f"value->>{n}"
    for n, name in enumerate(COLUMNS)
)
_INSERT_SHARED = f"""
    INSERT INTO penstock_ledger ({", ".join(COLUMNS)}, shared)
    SELECT {_FIELDS}, true FROM json_array_elements($1::json) ON CONFLICT (id) WHERE shared DO NOTHING
"""
_FORGET = """
    DELETE FROM penstock_ledger WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM penstock_ledger WHERE completed < $1 ORDER BY completed LIMIT $2 FOR UPDATE SKIP LOCKED
    ))
"""
_WRONG_ROWS = ("22", "23")  # SQLSTATE classes: wrong data, broken constraint


class PostgresStore:
    """Implements `ledger.store.Store`."""

    def __init__(self, url: str, *, time_limit: float = TIME_LIMIT, read_only: bool = False) -> None:
        self._url = url
        self._limit = time_limit
        self._read_only = read_only
        self._runner = asyncio.Runner()
        self._connection: Connection | None = None

    def write(self, spool: str, number: int, lines: bytes, *, shared: bool = False) -> int:
        async def insert(connection: Connection) -> int:
            if await connection.fetchval(_NEXT, spool, number) is None:
                return 0
            if shared:
                said = await connection.execute(_INSERT_SHARED, as_array(lines))
            else:
                said = await connection.copy_to_table(
                    "penstock_ledger", source=_once(as_csv(lines)), columns=COLUMNS,
                    format="csv", quote='"', escape="\\",
                )  # fmt: skip
            return int(said.rpartition(" ")[2])

        return self._in_transaction(insert)

    def forget(self, before: float, about: int) -> int:
        async def delete(connection: Connection) -> int:
            deleted = await connection.execute(_FORGET, before, about)
            return int(deleted.removeprefix("DELETE "))

        return self._in_transaction(delete)

    def query(
        self,
        tenant: str | None,
        since: float | None,
        status: str | None,
        limit: int,
        request_id: str | None = None,
    ) -> Sequence[PastRequest]:
        where, given = conditions(tenant, since, status, request_id, "${}")
        asked = f"""
            SELECT {", ".join(COLUMNS)}, round(((completed - created) * 1000)::numeric, 3)::float8
            FROM penstock_ledger {where} ORDER BY completed DESC LIMIT ${len(given) + 1}
        """

        async def select(connection: Connection) -> list[PastRequest]:
            return [PastRequest(*row) for row in await connection.fetch(asked, *given, limit)]

        return self._in_transaction(select)

    def close(self) -> None:
        self._drop()
        self._runner.close()
        self._runner = asyncio.Runner()

    def _drop(self) -> None:
        """Drops the connection at once: a proper close would wait for a server that may be hanging."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    def _in_transaction(self, work: Work[T]) -> T:
        async def done(connection: Connection) -> T:
            await connection.execute(_BEGIN.format(round(self._limit * 1000)))
            result = await work(connection)
            await connection.execute("COMMIT")
            return result

        return self._runner.run(self._within_limit(done))

    async def _within_limit(self, work: Work[T]) -> T:
        attempt = asyncio.ensure_future(self._connected(work))
        if not (await asyncio.wait([attempt], timeout=self._limit))[0]:
            self._drop()
            attempt.cancel()
            attempt.add_done_callback(_swallow)
            await asyncio.wait([attempt], timeout=_LETTING_GO)
            raise LedgerAway(f"{shown_url(self._url)} did not answer within {self._limit:g} s")
        error = attempt.exception()
        if error is None:
            return attempt.result()
        self._drop()  # whatever failed, a transaction may be open
        if isinstance(error, (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)):
            raise self._translated(error) from error
        raise error

    def _translated(self, error: BaseException) -> LedgerAway | ChunkRejected:
        message = f"{shown_url(self._url)}: {type(error).__name__}: {error}"
        if str(getattr(error, "sqlstate", ""))[:2] in _WRONG_ROWS:
            return ChunkRejected(message)
        return LedgerAway(message)

    async def _connected(self, work: Work[T]) -> T:
        if self._connection is None or self._connection.is_closed():
            # No cache of prepared statements, so that a connection pooler may stand before the database.
            self._connection = await asyncpg.connect(
                self._url, timeout=self._limit, statement_cache_size=0,
                server_settings={"application_name": "penstock ledger"},
            )  # fmt: skip
            await self._migrate(self._connection)
        return await work(self._connection)

    async def _migrate(self, connection: Connection) -> None:
        known = "SELECT to_regclass('penstock_ledger_version') IS NOT NULL"
        if self._read_only:
            if not await connection.fetchval(known):
                raise UserMistake(
                    f"{shown_url(self._url)} holds no ledger: say where it is with --ledger URL"
                )
            return
        await connection.execute(_BEGIN.format(round(self._limit * 1000)))
        await connection.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
        if not await connection.fetchval(known):
            await connection.execute(
                "CREATE TABLE penstock_ledger_version (version integer NOT NULL);"
                "INSERT INTO penstock_ledger_version VALUES (0)"
            )
        version = await connection.fetchval("SELECT version FROM penstock_ledger_version")
        if version > len(MIGRATIONS):
            raise LedgerAway(
                f"{shown_url(self._url)}: made by a newer Penstock (version {version} of the ledger)"
            )
        for migration in MIGRATIONS[version:]:
            await connection.execute(migration)
        await connection.execute("UPDATE penstock_ledger_version SET version = $1", len(MIGRATIONS))
        await connection.execute("COMMIT")


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


def _swallow(attempt: "asyncio.Future[Any]") -> None:
    """Reads how an attempt ended that nobody waits for any more. Otherwise asyncio would complain of it."""
    if not attempt.cancelled():
        attempt.exception()
