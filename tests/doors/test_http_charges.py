"""What was read and refused counts against the quota of who sent it."""

import asyncio
import time
from pathlib import Path

import pytest

from penstock.adapters.api_keys.file import KeysFile
from penstock.auth.keys import make_key
from server import PATIENT, Answer, Server, running

# As many as there are ways to be refused below.
REFUSED = [
    (422, b'{"input": 5}', {}),
    (422, b'{"input": "a", "parameters": {"' + b"p" * 20_000 + b'": 0}}', {}),
    (422, b'{"input": "' + b"\\u0001" * 100_000 + b'"}', {}),
    (400, b"{", {}),
    (400, b'{"input": "a"}', {"idempotency-key": "with space"}),
    (404, b'{"input": "a", "model": "nobody"}', {}),
    (413, b" " * 2**21, {}),
    (415, b'{"input": "a"}', {"content-type": "text/plain"}),
]
CONFIG = f"""{PATIENT}
[auth]
mode = "keys"
keys_file = "KEYS"
[tiers]
default = "free"
[tiers.levels.free]
rank = 0
requests_per_minute = {len(REFUSED)}
"""


def keys(folder: Path, *tenants: str) -> list[str]:
    made = [make_key(tenant, "free", time.time()) for tenant in tenants]

    async def add() -> None:
        for _, record in made:
            await KeysFile(folder / "keys.json").add(record)

    asyncio.run(add())
    return [key for key, _ in made]


def ask(server: Server, key: str, body: bytes = b'{"input": "a"}', **headers: str) -> Answer:
    return server.post("/v1/inference", body, {"authorization": f"Bearer {key}", **headers})


@pytest.fixture
def config(tmp_path: Path) -> str:
    return CONFIG.replace("KEYS", str(tmp_path / "keys.json"))


def test_each_refusal_of_what_was_read_counts_and_beyond_the_quota_it_is_429(
    config: str, tmp_path: Path
) -> None:
    acme, beta = keys(tmp_path, "acme", "beta")
    with running("sim:1ms", "--input", "text", config=config) as server:
        assert ask(server, "pk_nobody", b"{").status == 401
        assert server.get("/v1/result/nothing", {"authorization": f"Bearer {acme}"}).status == 404
        for status, body, headers in REFUSED:
            assert ask(server, acme, body, **headers).status == status
        over = ask(server, acme)
        assert (over.status, over.json()["error"]) == (429, "QUOTA_EXCEEDED")
        for _, body, headers in REFUSED:
            assert ask(server, acme, body, **headers).status == 429
        assert ask(server, beta).status == 200


def test_refusals_are_free_where_the_operator_says_so(config: str, tmp_path: Path) -> None:
    [acme] = keys(tmp_path, "acme")
    with running("sim:1ms", "--input", "text", config=f"{config}[limits]\ncount_refused = false\n") as server:
        for status, body, headers in REFUSED:
            assert ask(server, acme, body, **headers).status == status
        assert ask(server, acme).status == 200
