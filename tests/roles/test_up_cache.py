"""Over Redis: what one gateway has learned another gives again, and tenants stay apart."""

import asyncio
import json
from collections.abc import Iterator
from itertools import count
from time import time
from uuid import uuid4

import pytest
from up_kit import Up, up

from canary import FUNCTION, TENANTS, Canary
from penstock.adapters.redis.link.connect import RedisSettings, Store
from penstock.adapters.redis.records.api_keys import RedisKeys
from penstock.auth.keys import make_key
from redis_servers import VALKEY, patient
from server import Answer, eventually

CONFIG = """
[redis]
namespace = "{namespace}"
[auth]
mode = "keys"
[models.canary]
target = "{folder}/canary_function.py:batch"
max_batch = 8
deterministic = true
version = "1"
[tiers.levels.paid]
rank = 0
[timeouts]
queue = "60s"
processing = "60s"
request = "60s"
"""


async def keys_in(settings: RedisSettings) -> dict[str, str]:
    store, keys = Store(settings), {}
    try:
        await store.open()
        for tenant in TENANTS:
            keys[tenant], record = make_key(tenant, "paid", time())
            await RedisKeys(store).add(record)
    finally:
        await store.close()
    return keys


@pytest.fixture(scope="module")
def installed(
    redis_urls: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Up, dict[str, str]]]:
    folder, namespace, url = tmp_path_factory.mktemp("canary"), f"test-{uuid4().hex[:8]}", redis_urls[VALKEY]
    (folder / "canary_function.py").write_text(FUNCTION)
    (folder / "canary.toml").write_text(CONFIG.format(folder=folder, namespace=namespace))
    keys = asyncio.run(keys_in(patient(url, namespace=namespace)))
    options = ("--config", str(folder / "canary.toml"), "--redis", url)
    with up(f"{folder / 'canary_function.py'}:batch", *options, gateways=2) as running:
        yield running, keys
        assert running.end() == 0, running.lines


def ask(whole: Up, gateway: str, text: str, key: str) -> Answer:
    return whole.ask(gateway, "POST", "/v1/inference", json.dumps({"input": text}).encode(), x_api_key=key)


def metric(whole: Up, name: str) -> float:
    """Of both gateways together."""
    pages = (whole.admin_of(each, "/metrics").body.decode() for each in whole.ports)
    return sum(
        float(line.split()[-1]) for page in pages for line in page.splitlines() if line.startswith(name)
    )


def test_what_one_gateway_has_learned_the_other_gives_again_to_the_same_tenant_only(
    installed: tuple[Up, dict[str, str]],
) -> None:
    whole, keys = installed
    mine, others = keys["tenant-0"], keys["tenant-1"]
    numbers = count()

    def crosses_over() -> str:
        """It is written for the others in its own time: until then, another text."""
        text = f"text number {next(numbers)}"
        made = ask(whole, "gateway-1", text, mine).json()
        there = ask(whole, "gateway-2", text, mine).json()
        return text if there["output"] == made["output"] and there["metadata"]["cached"] else ""

    crossed: list[str] = []

    def crosses() -> bool:
        crossed.append(crosses_over())
        return bool(crossed[-1])

    eventually(crosses)
    first = ask(whole, "gateway-1", crossed[-1], mine).json()
    assert first["metadata"] == {
        "queue_ms": 0.0, "inference_ms": 0.0, "batch_size": 0, "model_version": "1", "cached": True,
    }  # fmt: skip
    stranger = ask(whole, "gateway-2", crossed[-1], others).json()
    assert (stranger["output"] != first["output"], stranger["metadata"]["cached"]) == (True, False)


def test_no_tenant_is_given_what_was_made_for_another_at_several_gateways(
    installed: tuple[Up, dict[str, str]], chaos_seed: int
) -> None:
    whole, keys = installed
    seen = asyncio.run(Canary(list(whole.ports.values()), keys, chaos_seed).fly(24))
    assert seen.across_tenants == seen.wrong == []
    assert set(seen.statuses) == {200}
    assert seen.cached > 0
    assert metric(whole, 'penstock_collapsed_requests_total{model="canary"}') > 0
