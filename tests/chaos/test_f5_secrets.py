"""Whatever clients invent adds no series to the metrics, and what they send is told to nobody else.

Over Redis: tests/chaos/test_redis_doors.py.
"""

import random
import subprocess
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from canaries import MARK, PLACES, TELLTALE, Aviary, both_kinds, check_letters, release
from penstock.errors import STATUS_BY_CODE
from server import PENSTOCK, running

RETRIES, DEBUG = "[retries]\nattempts = 1\n", '[server]\nlog_level = "debug"\n'


def make_key(folder: Path) -> str:
    command = [str(PENSTOCK), "keys", "create", "--tenant", "acme", "--tier", "paid"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def series(text: bytes) -> int:
    return sum(len(family.samples) for family in text_string_to_metric_families(text.decode()))


@pytest.mark.timeout(600)
def test_nothing_that_clients_send_is_logged_counted_or_told_to_others(
    tmp_path: Path, chaos_long: bool, chaos_seed: int
) -> None:
    pick = random.Random(chaos_seed)
    key = make_key(tmp_path)
    (tmp_path / "telltale.py").write_text(TELLTALE)
    config = both_kinds(tmp_path) + RETRIES + DEBUG
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
