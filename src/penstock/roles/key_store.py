"""Chooses where API keys are kept: in a file, in Redis, or in PostgreSQL. Servers
read keys there (`auth.py` asks `keys_at`), and `penstock keys` changes them (`cli/keys.py` asks `key_store`)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from penstock.auth.records import KeyStore
from penstock.config import Config
from penstock.errors import UserMistake


def keys_at(url: str) -> KeyStore:
    """Returns the key store at a URL. It is not connected yet. Raises UserMistake if the URL cannot be a key
    store's."""
    if not _is_postgres(url):
        raise UserMistake("API keys can be kept at postgresql://user@host/database: this URL is no such one")
    try:
        from penstock.adapters.api_keys.postgres import PostgresKeys
    except ImportError:
        raise UserMistake("API keys in PostgreSQL need asyncpg: pip install 'penstock[postgres]'") from None
    return PostgresKeys(url)


def _is_postgres(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("postgresql", "postgres") and bool(parts.netloc) and parts.port != 0
    except ValueError:  # a port that is no number, or a bracket without the other
        return False


@asynccontextmanager
async def key_store(where: Path | str | None, config: Config) -> AsyncIterator[KeyStore]:
    """Opens the key store at a file or a URL; for None, the one in the installation's Redis."""
    if where is not None:
        from penstock.adapters.api_keys.file import KeysFile

        keys = KeysFile(where) if isinstance(where, Path) else keys_at(where)
        try:
            yield keys
        finally:
            await keys.close()
        return
    from penstock.adapters.redis.link.connect import Store
    from penstock.adapters.redis.records.api_keys import RedisKeys
    from penstock.roles.redis import redis_settings

    store = Store(redis_settings(config))
    await store.open()
    try:
        yield RedisKeys(store)
    finally:
        await store.close()
