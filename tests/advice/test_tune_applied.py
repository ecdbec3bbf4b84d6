"""`penstock tune` on a running server: it records, is tuned by what it has learned, and goes by the advice."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor

from server import PENSTOCK, Server, eventually, running

CONFIG = """
[trace]
record = "arrivals.csv"

[models.m]
target = "sim:a=20ms,b=1ms"
workers = 4
max_batch = 8
policy = "window"    # what everybody has
max_wait = "500ms"
warmup = "a text"
"""


def penstock(server: Server, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [str(PENSTOCK), "tune", "--from", server.admin_url, *options]
    return subprocess.run(command, cwd=server.directory, capture_output=True, text=True, check=False)


def test_the_advice_for_its_own_record_is_in_force_without_a_restart() -> None:
    with running(config=CONFIG) as server:
        with ThreadPoolExecutor(8) as askers:
            answers = list(askers.map(lambda _: server.post("/v1/inference", {"input": "a"}), range(48)))
        assert {answer.status for answer in answers} == {200}
        record = server.directory / "arrivals.csv"
        eventually(lambda: record.exists() and record.read_text().count("\n") > 40)
        found = penstock(server, "--trace", "arrivals.csv", "--apply", "--json")
        assert found.returncode == 0, found.stderr
        changes = json.loads(found.stdout)["changes"]
        # Half a second of waiting is more than any GPU here takes: whatever is advised, it is not that.
        assert changes
        assert "max_batch" not in changes
        assert "It is in force now." in found.stderr
        said = server.admin("/internal/config").json()
        in_force = {row["key"]: row["value"] for row in said["settings"]}
        for name, value in changes.items():
            assert in_force[f"models.m.{name}"] == value
        assert said["pid"] == server.process.pid
        assert "# what everybody has" in (server.directory / "penstock.toml").read_text()
        assert server.post("/v1/inference", {"input": "a"}).status == 200


def test_what_the_environment_of_the_server_sets_is_not_applied() -> None:
    with running(config=CONFIG, environment={"PENSTOCK_MODELS_M_POLICY": "greedy"}) as server:
        found = penstock(server, "--rate", "10", "--apply")
        assert found.returncode == 2
        assert "models.m.policy is set by PENSTOCK_MODELS_M_POLICY, which wins over the file" in found.stderr
