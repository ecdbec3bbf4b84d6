"""8 tenants, the same inputs, random cancels, collapsing and the cache on: nothing crosses tenants."""

import asyncio
from pathlib import Path
from time import time

import pytest

from canary import FUNCTION, TENANTS, Canary
from penstock.adapters.api_keys.file import KeysFile
from penstock.auth.keys import make_key
from server import running

CONFIG = """
[auth]
mode = "keys"
keys_file = "{folder}/keys.json"
[models.canary]
target = "{folder}/canary_function.py:batch"
workers = 2
max_batch = 8
deterministic = true
cache_ttl = "300ms"
[tiers.levels.paid]
rank = 0
# Who gets whose answer is the question here, not how soon, and a slow machine must not refuse any.
[timeouts]
queue = "30s"
request = "30s"
"""


async def keys_in(file: Path) -> dict[str, str]:
    store, keys = KeysFile(file), {}
    for tenant in TENANTS:
        keys[tenant], record = make_key(tenant, "paid", time())
        await store.add(record)
    return keys


@pytest.mark.timeout(300)
def test_no_tenant_is_given_what_was_made_for_another(
    tmp_path: Path, chaos_long: bool, chaos_seed: int
) -> None:
    (tmp_path / "canary_function.py").write_text(FUNCTION)
    keys = asyncio.run(keys_in(tmp_path / "keys.json"))
    with running(config=CONFIG.format(folder=tmp_path)) as server:
        seen = asyncio.run(Canary([server.url], keys, chaos_seed).fly(400 if chaos_long else 40))
        collapsed = server.metric("penstock_collapsed_requests_total", model="canary")
        hits = server.metric("penstock_cache_requests_total", model="canary", result="hit")
    assert seen.across_tenants == seen.wrong == []
    assert set(seen.statuses) == {200}
    assert seen.cached > 0
    assert hits > 0
    assert collapsed > 0  # else nothing was put to the test
