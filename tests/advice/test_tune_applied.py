"""`penstock tune` on a running server: it records, is tuned by what it has learned, and goes by the advice."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from up_kit import up

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

OVER_REDIS = """
[models.m]
target = "sim:a=20ms,b=1ms"
max_batch = 8
policy = "window"
max_wait = "500ms"
"""


def penstock(server: Server, *options: str) -> "subprocess.CompletedProcess[str]":
    return tune(server.admin_url, server.directory, *options)


def tune(admin: str, directory: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    command = [str(PENSTOCK), "tune", "--from", admin, *options]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


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


def test_over_redis_the_workers_read_it_and_the_batchers_follow_them(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(OVER_REDIS)
    seconds = "".join(f"2026-01-01 00:00:{n // 20:02}.{n % 20 * 5:02},10\n" for n in range(200))
    (tmp_path / "arrivals.csv").write_text(f"TIMESTAMP,ContextTokens\n{seconds}")
    with up(None, "--config", str(file), batchers=2, workers=2) as whole:
        told = "--trace", "arrivals.csv", "--curve", "1=20ms,8=28ms"
        found = tune(whole.admins["gateway-1"], tmp_path, *told, "--config", str(file), "--apply", "--json")
        assert found.returncode == 0, found.stderr
        assert "SIGHUP sent to 5 processes" in found.stderr
        assert "It is in force now." in found.stderr
        changes = json.loads(found.stdout)["changes"]
        assert changes["policy"] != '"window"'
        assert "reserve" not in changes  # each process has one worker, and may not keep it back
        for name, value in changes.items():
            assert f"{name} = {value}" in file.read_text()

        def policy(asked: str) -> str:
            return f'"{whole.admin_of(asked, "/internal/health").json()["models"]["m"]["policy"]}"'

        eventually(lambda: {policy("batcher-1"), policy("batcher-2")} == {changes["policy"]})
