"""`penstock serve` with a ledger has a row for each accepted request, and `penstock requests` reads it."""

import json
import subprocess

from server import PENSTOCK, Server, eventually, running

CONFIG = """
[ledger]
url = "sqlite:///ledger.db"
[tenants.acme]
tier = "enterprise"
[models.sim]
target = "sim:poison=bad"
"""


def rows(server: Server, *options: str) -> list[dict[str, object]]:
    done = subprocess.run(
        [str(PENSTOCK), "requests", "--ledger", "sqlite:///ledger.db", "--json", *options],
        cwd=server.directory, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_request_is_a_row_with_its_tenant_and_how_it_ended() -> None:
    with running(config=CONFIG) as server:
        for number in range(3):
            asked = {"input": "good", "client_id": "acme"}
            assert server.post("/v1/inference", asked, {"x-request-id": f"r{number}"}).status == 200
        assert server.post("/v1/inference", {"input": "bad"}, {"x-request-id": "b"}).status == 502
        task = server.post(
            "/v1/inference", {"input": "later"}, {"prefer": "respond-async", "x-request-id": "t"}
        )
        assert task.status == 202
        # There is no file to read before the first has been written.
        eventually(lambda: server.health()["ledger"]["written"] == 5)
        found = {str(row["request_id"]): row for row in rows(server)}
        assert set(found) == {"r0", "r1", "r2", "b", "t"}
        assert (found["r0"]["tenant"], found["r0"]["tier"], found["r0"]["status"]) == (
            "acme",
            "enterprise",
            "SUCCESS",
        )
        assert found["b"]["status"] == "BACKEND_FAILED"
        assert len(rows(server, "--tenant", "acme")) == 3
        assert len(rows(server, "--tenant", "acme", "--since", "1h", "--limit", "2")) == 2
        assert "good" not in json.dumps(rows(server))


def test_what_was_not_written_yet_is_written_when_the_server_ends() -> None:
    with running(config=CONFIG) as server:
        assert server.post("/v1/inference", {"input": "last"}).status == 200
        assert server.stop() == 0
        assert len(rows(server)) == 1


def test_rows_written_are_counted_in_the_metrics_and_in_the_health() -> None:
    with running(config=CONFIG) as server:
        assert server.post("/v1/inference", {"input": "good"}).status == 200

        def written() -> bool:
            """Nothing waits any more: said by one answer, since the threads that count do so one after another."""
            ledger = server.health()["ledger"]
            assert (ledger["status"], ledger["lost"]) == ("ok", 0)
            return (ledger["written"], ledger["waiting"]) == (1, 0)

        eventually(written)
        assert server.metric("penstock_ledger_rows_total", state="written") == 1
        assert server.metric("penstock_ledger_up") == 1


AWAY = """
[ledger]
url = "sqlite:///no-such-folder/ledger.db"
spool_size = "4KiB"
[models.sim]
target = "sim:0ms"
"""


def test_a_database_that_is_away_and_rows_lost_to_a_full_spool_are_told_and_harm_no_request() -> None:
    with running(config=AWAY) as server:

        def lost() -> bool:
            assert server.post("/v1/inference", {"input": "good"}).status == 200
            return bool(server.health()["ledger"]["lost"])

        eventually(lost)
        eventually(lambda: server.health()["ledger"]["status"] == "away")
        # The last rows have dropped those before them, and stay.
        eventually(lambda: server.metric("penstock_ledger_spool_bytes") > 0)
        health = server.health()
        assert (health["status"], health["ledger"]["status"]) == ("healthy", "away")
        assert "no-such-folder" in health["ledger"]["error"]
        assert server.metric("penstock_ledger_rows_total", state="lost") > 0
        assert server.metric("penstock_ledger_waiting_rows") > 0
        assert server.metric("penstock_ledger_up") == 0
