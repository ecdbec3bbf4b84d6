"""Over Redis: gateways killed, and each task has one row, whoever accepted it and whoever saw it end."""

import json
import subprocess
import uuid
from collections import Counter
from pathlib import Path

import pytest

from installation import Installation, Member, installation, patiently
from server import PENSTOCK, call

CONFIG = """
[ledger]
url = "sqlite:///ledger.db"
[tenants.acme]
tier = "enterprise"
# A queue of two and a half seconds and more must be served whole: each task is to have its row, none is to expire.
[timeouts]
queue = "30s"
request = "40s"
"""
TASKS = 30


def send_tasks(gateway: Member, number: int) -> list[str]:
    ids = [uuid.uuid4().hex for _ in range(number)]
    for task_id in ids:
        body = json.dumps({"input": f"good:{task_id}", "client_id": "acme"}).encode()
        headers = {"content-type": "application/json", "prefer": "respond-async", "x-request-id": task_id}
        assert call(gateway.url, "POST", "/v1/inference", body, headers).status == 202
    return ids


def rows(folder: Path) -> list[dict[str, object]]:
    asked = [str(PENSTOCK), "requests", "--ledger", "sqlite:///ledger.db", "--json", "--limit", "100000"]
    done = subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()]


def writer(site: Installation) -> Member:
    """The gateway that writes down the tasks of all."""
    return min((member for member in site.gateways if member.alive), key=lambda each: each.health()["name"])


@pytest.mark.timeout(300)
def test_each_task_has_one_row_whichever_gateway_is_killed(tmp_path: Path, chaos_long: bool) -> None:
    with installation(
        tmp_path, batchers=1, workers=1, slots=2, max_batch=4, delay=0.3, config=CONFIG, long=chaos_long
    ) as site:
        ids: list[str] = []
        for _ in range(5 if chaos_long else 1):
            for victim_writes in (True, False):
                victim = writer(site)
                if not victim_writes:
                    (victim,) = (gateway for gateway in site.gateways if gateway is not victim)
                ids += send_tasks(victim, TASKS)  # whose ends it will not live to see
                victim.kill()
                victim.restart()
                site.wait_until_known()
        patiently(lambda: len(rows(tmp_path)) >= len(ids), 60.0)
        site.wait_until_quiet()
        patiently(lambda: all(gateway.health()["ledger"]["waiting"] == 0 for gateway in site.gateways))
        found = rows(tmp_path)
        assert Counter(row["request_id"] for row in found) == Counter(ids)
        assert {(row["tenant"], row["tier"], row["status"]) for row in found} == {
            ("acme", "enterprise", "SUCCESS")
        }
