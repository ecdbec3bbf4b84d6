"""The unit and the Dockerfile, held against what they stand on: settings, signals, commands and probes."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import typer.main

from penstock.cli.app import app_for
from penstock.config import load
from server import running

ROOT = Path(__file__).parents[2]
UNIT = (ROOT / "deploy" / "penstock.service").read_text()
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def unit(name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", UNIT, re.MULTILINE)


def variables(words: str) -> dict[str, str]:
    return dict(re.findall(r"(PENSTOCK_\w+)=(\S+)", words))


def test_the_unit_waits_longer_than_the_drain_and_lets_in_all_connections() -> None:
    server = load(None, {}, {}).server
    assert int(unit("TimeoutStopSec")[0]) > server.drain + server.drain_grace
    assert int(unit("LimitNOFILE")[0]) > server.max_connections
    assert unit("KillMode") == ["mixed"]
    assert unit("RestartPreventExitStatus") == ["2"]


def test_both_set_only_what_can_be_set_and_call_only_commands_there_are() -> None:
    state = "/var/lib/" + unit("StateDirectory")[0]
    ours = variables("\n".join(unit("Environment")))
    assert all(value.startswith(state) for value in ours.values())
    for environment in (ours, variables(re.search(r"^ENV (.*?)\n[A-Z]", DOCKERFILE, re.M | re.S)[1])):  # type: ignore[index]
        config = load(None, environment, {"model.target": "sim:1ms"})
        assert {source for source in config.sources.values() if source.startswith("PENSTOCK_")} == set(
            environment
        )
    known = getattr(typer.main.get_command(app_for([])), "commands")  # noqa: B009 - Typer has no public type for it
    for line in unit("ExecStart(?:Pre)?"):
        _, name, *words = shlex.split(line)
        options = {option for parameter in known[name].params for option in parameter.opts}
        assert set(words) <= options
    assert json.loads(re.findall(r"^CMD (.*)$", DOCKERFILE, re.MULTILINE)[0])[0] in known


def test_the_dockerfile_copies_only_what_is_there_and_not_ignored() -> None:
    let_in = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        word for line in re.findall(r"^COPY (?!--)(.*) \S+$", DOCKERFILE, re.M) for word in line.split()
    }
    assert copied == let_in
    assert all((ROOT / name).exists() for name in copied)


def test_the_image_names_its_user_by_number_so_that_kubernetes_can_tell_it_is_not_root() -> None:
    user, group = re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)[-1]
    assert f"useradd --uid {user} --user-group" in DOCKERFILE
    assert group == user != "0"
    assert f"runs as user {user}" in (ROOT / "docs" / "production.md").read_text()


def test_the_health_check_of_the_image_follows_the_server() -> None:
    program = json.loads(re.findall(r"^  CMD (.*)$", DOCKERFILE, re.MULTILINE)[0])
    assert program[0] == "python"

    def healthy() -> bool:
        environment = {**os.environ, "PENSTOCK_SERVER_ADMIN_PORT": port}
        return (
            subprocess.run([sys.executable, *program[1:]], env=environment, capture_output=True).returncode
            == 0
        )

    with running("sim:1ms") as server:
        port = server.admin_url.rpartition(":")[2]
        assert healthy()
    assert not healthy()
