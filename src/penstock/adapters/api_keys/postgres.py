"""API keys in PostgreSQL, for all gateways of an installation. `roles/key_store.py` makes the `PostgresKeys`.

Every gateway that takes API keys reads them again and again (`auth/watch.py`). Only `penstock keys` changes them.
The tables are made by whoever adds the first key; a gateway only reads, so that its user needs no more than SELECT.
A revoked key keeps its row, and revoking cannot be undone. Each change sets a stamp in the same transaction, and a
gateway asks for nothing but the stamp while it stays the same. The stamp is a time and not a count: a database that
was restored from a copy would count to the same number again with other keys.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import asyncpg

from penstock.adapters.private import shown_url
from penstock.auth.records import KeyRecord
from penstock.errors import StoreDown, UserMistake

T = TypeVar("T")
Connection = Any  # asyncpg comes without types

TIME_LIMIT = 3.0  # seconds for one read or change
_LETTING_GO = 0.5  # seconds for a connection, or a cancelled read or change, to end
_FAULTS = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)
_LOCK = 0x70656E6B65797300  # "penkeys" in ASCII: one process at a time makes the tables

_TABLES = """
    CREATE TABLE IF NOT EXISTS penstock_keys (
        id text PRIMARY KEY, tenant text NOT NULL, tier text NOT NULL, created double precision NOT NULL,
        salt bytea NOT NULL, digest bytea NOT NULL, expires double precision, revoked double precision,
        note text NOT NULL
    );
    CREATE TABLE IF NOT EXISTS penstock_keys_stamp (stamp bigint NOT NULL);
    INSERT INTO penstock_keys_stamp SELECT 0 WHERE NOT EXISTS (SELECT FROM penstock_keys_stamp);
"""
_NOW = "extract(epoch FROM clock_timestamp())"
# A stamp is always above the last one, whatever the server's clock does. Changes take turns at this row.
_STAMP = f"UPDATE penstock_keys_stamp SET stamp = greatest(stamp + 1, ({_NOW} * 1000000)::bigint)"
_COLUMNS = "id, tenant, tier, created, salt, digest, expires, revoked, note"
_ADD = f"INSERT INTO penstock_keys ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING"
_REVOKE = f"UPDATE penstock_keys SET revoked = {_NOW} WHERE id = $1 AND revoked IS NULL"


class PostgresKeys:
    """Implements `auth.records.KeyStore`. It has one connection, which is made when it is needed and thrown away
    after any error."""

    def __init__(self, url: str, time_limit: float = TIME_LIMIT) -> None:
        self._url = url
        self._limit = time_limit
        self._connection: Connection | None = None
        self._alone = asyncio.Lock()  # held for each read or change: there is one connection
        self._seen = False  # whether the tables were ever there

    async def version(self) -> object:
        """Returns the stamp. A database that had the tables before, and has none now, counts as away."""

        async def ask(connection: Connection) -> object:
            try:
                return await connection.fetchval("SELECT stamp FROM penstock_keys_stamp")
            except asyncpg.UndefinedTableError:
                return None

        stamp = await self._asked(ask)
        if stamp is None and self._seen:
            raise StoreDown(
                f"{shown_url(self._url)} has lost the API keys: make them anew, or restore it",
                retry_after=1.0,
            )
        self._seen |= stamp is not None
        return stamp

    async def load(self) -> Sequence[KeyRecord]:
        async def ask(connection: Connection) -> list[KeyRecord]:
            try:
                return [
                    _record(row) for row in await connection.fetch(f"SELECT {_COLUMNS} FROM penstock_keys")
                ]
            except asyncpg.UndefinedTableError:
                return []

        return await self._asked(ask)

    async def add(self, record: KeyRecord) -> None:
        values = [getattr(record, name) for name in _COLUMNS.split(", ")]

        async def change(connection: Connection) -> bool:
            async with connection.transaction():
                await connection.execute(f"SELECT pg_advisory_xact_lock({_LOCK})")
                await connection.execute(_TABLES)
                added: bool = await connection.execute(_ADD, *values) == "INSERT 0 1"
                if added:
                    await connection.execute(_STAMP)
                return added

        if not await self._asked(change):
            raise UserMistake(f"there is a key {record.id} already")

    async def revoke(self, key_id: str) -> KeyRecord:
        async def change(connection: Connection) -> KeyRecord | None:
            async with connection.transaction():
                try:
                    if await connection.execute(_REVOKE, key_id) == "UPDATE 1":
                        await connection.execute(_STAMP)
                    found = await connection.fetchrow(
                        f"SELECT {_COLUMNS} FROM penstock_keys WHERE id = $1", key_id
                    )
                except asyncpg.UndefinedTableError:
                    return None
                return None if found is None else _record(found)

        record = await self._asked(change)
        if record is None:
            where = shown_url(self._url)
            raise UserMistake(f"there is no key {key_id!r} in {where}: penstock keys list shows them")
        return record

    async def close(self) -> None:
        if self._connection is not None:
            try:
                await self._connection.close(timeout=_LETTING_GO)
            except _FAULTS:
                self._drop()

    # ---- one read or change --------------------------------------------------------------------------------

    async def _asked(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Runs the work on the connection and returns its result. Raises StoreDown within the time limit, even if
        the server hangs; the connection is then dropped."""
        async with self._alone:
            attempt = asyncio.ensure_future(self._connected(work))
            try:
                done, _ = await asyncio.wait([attempt], timeout=self._limit)
                if not done:
                    raise self._away(f"no answer within {self._limit:g} s")
                return attempt.result()
            except _FAULTS as error:
                raise self._away(type(error).__name__) from error
            finally:
                if not attempt.done():  # the time is up, or the caller was cancelled
                    self._drop()
                    attempt.cancel()
                    await asyncio.wait([attempt], timeout=_LETTING_GO)
                if attempt.cancelled() or not attempt.done() or attempt.exception() is not None:
                    self._drop()

    async def _connected(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        if self._connection is None or self._connection.is_closed():
            # No cache of prepared statements, so that a connection pooler may stand before the database.
            self._connection = await asyncpg.connect(
                self._url, timeout=self._limit, statement_cache_size=0,
                server_settings={"application_name": "penstock keys"},
            )  # fmt: skip
        return await work(self._connection)

    def _drop(self) -> None:
        """Drops the connection at once: a proper close would wait for a server that may be hanging."""
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    def _away(self, why: str) -> StoreDown:
        """Returns the error. It does not repeat the server's own message, which may quote the statement."""
        return StoreDown(f"{shown_url(self._url)} cannot be reached: {why}", retry_after=1.0)


def _record(row: Any) -> KeyRecord:
    return KeyRecord(**dict(row))
