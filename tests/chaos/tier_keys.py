"""API keys that carry a tier: made as `penstock keys create` does, without a process for each."""

import asyncio
import time
from collections.abc import Iterable, Mapping
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
    return asyncio.run(_keys(file, Config(), _one_each(tiers)))


def keys_in_redis(url: str, tiers: Iterable[str] = TIERS) -> dict[str, str]:
    return asyncio.run(_keys(None, Config(redis=Redis(url=url)), _one_each(tiers)))


def tenants_in_file(file: Path, tiers: Mapping[str, str]) -> dict[str, str]:
    """By tenant; `tiers` has the tier of each."""
    return asyncio.run(_keys(file, Config(), _by_name(tiers)))


def tenants_in_redis(url: str, tiers: Mapping[str, str]) -> dict[str, str]:
    return asyncio.run(_keys(None, Config(redis=Redis(url=url)), _by_name(tiers)))


def _one_each(tiers: Iterable[str]) -> list[tuple[str, str, str]]:
    return [(tier, f"tenant-{tier}", tier) for tier in tiers]


def _by_name(tiers: Mapping[str, str]) -> list[tuple[str, str, str]]:
    return [(tenant, tenant, tier) for tenant, tier in tiers.items()]


async def _keys(file: Path | None, config: Config, wanted: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    keys = {}
    async with key_store(file, config) as store:
        for name, tenant, tier in wanted:
            keys[name], record = make_key(tenant, tier, time.time())
            await store.add(record)
    return keys
