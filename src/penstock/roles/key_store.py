"""Where API keys are kept: in a file, or in Redis."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from penstock.auth.records import KeyStore
from penstock.config import Config


@asynccontextmanager
async def key_store(file: Path | None, config: Config) -> AsyncIterator[KeyStore]:
    """The file, or without one the Redis of the installation."""
    if file is not None:
        from penstock.adapters.keys_file import KeysFile

        yield KeysFile(file)
        return
    from penstock.adapters.redis.connect import Store
    from penstock.adapters.redis.key_store import RedisKeys
    from penstock.roles.shared import redis_settings

    store = Store(redis_settings(config))
    await store.open()
    try:
        yield RedisKeys(store)
    finally:
        await store.close()
