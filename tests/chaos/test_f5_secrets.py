"""F5: whatever clients invent adds no series to the metrics, and what they send is told to nobody else."""

import random
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families

from canaries import ANY, MARK, TELLTALE, Aviary, Bird, told_of_others
from installation import Member, installation, patiently
from penstock.errors import STATUS_BY_CODE
from server import PENSTOCK, Answer, call, running
from wire import Address, Heard, talk

RETRIES, DEBUG = "[retries]\nattempts = 1\n", '[server]\nlog_level = "debug"\n'
PLACES = ("/metrics", "/internal/health", "/internal/workers", "/livez", "/readyz")


def make_key(folder: Path, *where: str) -> str:
    command = [str(PENSTOCK), "keys", "create", "--tenant", "acme", "--tier", "paid", *where]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def series(text: bytes) -> int:
    return sum(len(family.samples) for family in text_string_to_metric_families(text.decode()))


def address(url: str) -> Address:
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def release(birds: list[Bird], *addresses: Address) -> Counter[int]:
    """Sends them all; each may be told what is its own and nothing else."""

    def send(bird: Bird, where: Address) -> Heard:
        return talk(where, bird.request)

    with ThreadPoolExecutor(16) as pool:
        heard = list(pool.map(send, birds, cycle(addresses)))
    for bird, answer in zip(birds, heard, strict=True):
        assert told_of_others(bird, answer.data) == set(), answer.data
    assert all(len(answer.statuses) == 1 for answer in heard)
    return Counter(answer.statuses[0] for answer in heard)


def check_letters(listing: Answer, key: str) -> None:
    """Dead letters hold inputs, for whoever administers the server; a list of them shows ids and tenants only."""
    letters = listing.json()
    assert letters, "some have failed"
    shown = {found.rpartition(b"_")[2] for found in ANY.findall(listing.body)}
    assert shown == {b"id"}
    assert key.split("_")[2] not in listing.body.decode()


@pytest.mark.timeout(600)
def test_nothing_that_clients_send_is_logged_counted_or_told_to_others(
    tmp_path: Path, chaos_long: bool, chaos_seed: int
) -> None:
    pick = random.Random(chaos_seed)
    key = make_key(tmp_path)
    (tmp_path / "telltale.py").write_text(TELLTALE)
    config = f'[auth]\nmode = "keys"\nkeys_file = "{tmp_path}/penstock-keys.json"\n{RETRIES}{DEBUG}'
    with running(f"{tmp_path}/telltale.py:batchstring", "--max-wait", "0ms", config=config) as server:
        aviary = Aviary(key, pick)
        release(aviary.one_of_each(), server.address)
        before = series(server.admin("/metrics").body)
        seen = release(aviary.some(10_000 if chaos_long else 1_500), server.address)
        assert {200, 202, 400, 401, 404, 405, 415, 422, 502} <= set(seen)
        assert 500 not in seen
        after = server.admin("/metrics").body
        assert series(after) <= before + len(STATUS_BY_CODE)  # of which not all may have come up before
        told = [server.stderr(), *(server.admin(place).body.decode() for place in PLACES)]
        assert "raised ValueError" in told[0]  # it does log
        for text in told:
            assert MARK not in text.lower()
            assert key.split("_")[2] not in text
        check_letters(server.admin("/internal/dlq?limit=1000"), key)


@pytest.mark.timeout(600)
def test_nor_is_it_by_any_process_of_an_installation_over_redis(
    tmp_path: Path, chaos_long: bool, chaos_seed: int
) -> None:
    pick = random.Random(chaos_seed)
    (tmp_path / "telltale.py").write_text(TELLTALE)
    with installation(
        tmp_path, gateways=2, batchers=1, workers=1, config=f'[auth]\nmode = "keys"\n{RETRIES}{DEBUG}',
        target=f"{tmp_path}/telltale.py:batchstring", worker_options=("--max-wait", "0ms"),
    ) as site:  # fmt: skip
        key = make_key(tmp_path, "--redis", site.redis.url)
        addresses = [address(gateway.url) for gateway in site.gateways]
        known = {"x-api-key": key, "content-type": "application/json"}

        def let_in(gateway: Member) -> bool:
            return call(gateway.url, "POST", "/v1/inference", b'{"input": "a"}', known).status == 200

        patiently(lambda: all(let_in(gateway) for gateway in site.gateways))
        seen = release(Aviary(key, pick).some(5_000 if chaos_long else 300), *addresses)
        assert {200, 401, 404, 422} <= set(seen)
        assert 500 not in seen
        for member in site.members:
            told = [member.log(), *(member.admin(place).body.decode() for place in PLACES)]
            for text in told:
                assert MARK not in text.lower(), member.name
                assert key.split("_")[2] not in text, member.name
        check_letters(site.gateways[0].admin("/internal/dlq?limit=1000"), key)
