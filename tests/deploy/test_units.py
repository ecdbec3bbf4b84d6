"""The systemd units of every role: what they set and call exists, systemd can read them, and what they forbid is
not needed."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
import typer.main

from installation import Member
from penstock.cli.app import COMMANDS, app_for
from penstock.config import load
from penstock.server.life import FAREWELL
from redis_servers import VALKEY, redis_server
from server import PENSTOCK

FOLDER = Path(__file__).parents[2] / "deploy"
UNITS = sorted(path for path in FOLDER.glob("*.service"))
EXPOSED = 2.0  # of 10, by the count of systemd itself: only what the network and a GPU need is left


def lines(unit: Path, name: str) -> list[str]:
    return re.findall(rf"^{name}=(.*)$", unit.read_text(), re.MULTILINE)


def role(unit: Path) -> str:
    return shlex.split(lines(unit, "ExecStart")[0])[1]


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_it_calls_a_command_there_is_and_sets_what_can_be_set(unit: Path) -> None:
    if role(unit) not in COMMANDS:
        pytest.skip(f"there is no `penstock {role(unit)}` yet")
    known = getattr(typer.main.get_command(app_for([])), "commands")  # noqa: B009 - Typer has no public type for it
    _, name, *words = shlex.split(lines(unit, "ExecStart")[0])
    options = {option for parameter in known[name].params for option in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= options
    ours = dict(re.findall(r"^(PENSTOCK_\w+)=(.*)$", "\n".join(lines(unit, "Environment")), re.MULTILINE))
    config = load(
        None, {key: value.replace("%i", "0") for key, value in ours.items()}, {"model.target": "sim:1ms"}
    )
    assert {source for source in config.sources.values() if source.startswith("PENSTOCK_")} == set(ours)


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_it_waits_for_the_drain_and_does_not_try_a_mistake_again(unit: Path) -> None:
    server = load(None, {}, {}).server
    assert int(lines(unit, "TimeoutStopSec")[0]) > server.drain + server.drain_grace + FAREWELL
    assert lines(unit, "KillMode") == ["mixed"]
    assert lines(unit, "RestartPreventExitStatus") == ["2"]
    assert lines(unit, "ExecReload") == ["/bin/kill -HUP $MAINPID"]


def test_roles_may_share_a_machine() -> None:
    numbers = [re.search(r"ADMIN_PORT=(.*)", "\n".join(lines(unit, "Environment"))) for unit in UNITS]
    ports = ["9000" if found is None else found[1] for found in numbers]
    # A machine has either the one server or a gateway.
    assert len(set(ports)) == len(ports) - 1


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_systemd_can_read_it_and_finds_it_shut_off(unit: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not on the PATH")
    here = tmp_path / unit.name.replace("@", "@0")
    here.write_text(unit.read_text().replace("/opt/penstock/bin/penstock", "/bin/true"))
    verified = subprocess.run(
        ["systemd-analyze", "verify", str(here)], capture_output=True, text=True, check=False
    )
    assert [line for line in verified.stderr.splitlines() if unit.stem.partition("@")[0] in line] == []
    said = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--no-pager", str(here)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    level = re.search(r"Overall exposure level for .*: ([0-9.]+)", said.stdout)
    assert level, said.stdout + said.stderr
    assert float(level[1]) <= EXPOSED


# What `MemoryDenyWriteExecute` does, where the kernel can do it (PR_SET_MDWE), and then the command.
WITHOUT_NEW_CODE = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(65, 1, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_role_whose_unit_forbids_new_code_needs_none(tmp_path: Path) -> None:
    forbidden = [role(unit) for unit in UNITS if "yes" in lines(unit, "MemoryDenyWriteExecute")]
    assert {"gateway", "batcher"} <= set(forbidden)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    with redis_server(VALKEY) as redis, ExitStack() as stack:
        for number, name in enumerate(each for each in forbidden if each in COMMANDS):
            ports = ["--port", "0"] if name == "gateway" else []
            words = [str(PENSTOCK), name, *ports, "--admin-port", "0", "--redis", redis.url]
            command = [sys.executable, "-c", WITHOUT_NEW_CODE, *words]
            process = Member(name, number, tmp_path, command, inherited)
            stack.callback(process.end)
            process.launch()
            process.wait()
            assert process.admin("/livez").status == 200
            assert process.stop() == 0
