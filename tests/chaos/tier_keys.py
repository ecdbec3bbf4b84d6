"""API keys that carry a tier, one tenant each: made as `penstock keys create` does, without a process for each."""

import asyncio
import time
from collections.abc import Iterable
from pathlib import Path

from penstock.auth.keys import make_key
from penstock.config import Config, Redis
from penstock.roles.key_store import key_store

TIERS = ("enterprise", "paid", "free")
NO_QUOTA = """
[tiers.levels.enterprise]
rank = 0
weight = 8
[tiers.levels.paid]
rank = 1
weight = 4
[tiers.levels.free]
rank = 2
weight = 1
"""  # the usual tiers, but for the quota of the lowest


def keys_in_file(file: Path, tiers: Iterable[str] = TIERS) -> dict[str, str]:
    """By tier, for `auth.keys_file`."""
    return asyncio.run(_keys(file, Config(), tiers))


def keys_in_redis(url: str, tiers: Iterable[str] = TIERS) -> dict[str, str]:
    return asyncio.run(_keys(None, Config(redis=Redis(url=url)), tiers))


async def _keys(file: Path | None, config: Config, tiers: Iterable[str]) -> dict[str, str]:
    keys = {}
    async with key_store(file, config) as store:
        for tier in tiers:
            keys[tier], record = make_key(f"tenant-{tier}", tier, time.time())
            await store.add(record)
    return keys
