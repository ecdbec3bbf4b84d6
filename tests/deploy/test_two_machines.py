"""The guide to two machines in docs/production.md, in two network namespaces: its configuration, its commands and
the units that it names."""

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from machines import Machine, two_machines

from installation import Member
from redis_servers import VALKEY, binary
from server import PENSTOCK, eventually

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/production.md").read_text().partition("## Two machines\n")[2].partition("\n## ")[0]
TOML, ON_FIRST, ON_SECOND, ANYWHERE = re.findall(r"```(?:toml)?\n(.*?)```", GUIDE, re.DOTALL)
FIRST, SECOND = "10.0.0.5", "10.0.0.6"
APP = "def predict(inputs):\n    return [text.upper() for text in inputs]\n"


def units(commands: str) -> list[str]:
    """The units that are enabled."""
    return re.findall(r"penstock-\S+", re.findall(r"systemctl enable --now (.*)", commands)[0])


def started_by(unit: str, machine: Machine, number: int, folder: Path) -> Member:
    """What a unit starts, on this machine."""
    name, at, instance = unit.partition("@")
    text = (ROOT / "deploy" / f"{name}{at}.service").read_text().replace("%i", instance).replace("%H", "gpu")
    (command,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    words = shlex.split(command)
    assert words[0] == "/opt/penstock/bin/penstock"
    given = dict(re.findall(r"^Environment=(\w+)=(.*)$", text, re.MULTILINE))
    given = {key: value.replace("/var/lib/penstock", str(folder)) for key, value in given.items()}
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("PENSTOCK_")}
    return Member(words[1], number, folder, machine.inside(str(PENSTOCK), *words[1:]), {**inherited, **given})


@dataclass
class Site:
    first: Machine
    second: Machine
    members: list[Member]
    key: str

    def asked_from(self, machine: Machine, key: str) -> str:
        """The status and the body of the guide's own request."""
        (words,) = (shlex.split(line) for line in ANYWHERE.splitlines() if line)
        words = [word.replace("$KEY", key) for word in words]
        at = words.index("--json")  # which older versions of curl do not have
        words[at : at + 1] = ["-H", "content-type: application/json", "-d"]
        done = machine.run(*words, "-s", "-m", "60", "-w", " %{http_code}", "--noproxy", "*")
        return done.stdout

    def status(self, machine: Machine, url: str) -> str:
        """What a GET is answered; 000 if nobody is there."""
        done = machine.run(
            "curl", "-s", "-m", "60", "-o", "/dev/null", "-w", "%{http_code}", "--noproxy", "*", url
        )
        return done.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    here, there = (tmp_path_factory.mktemp(name) for name in ("first", "second"))
    for folder in (here, there):
        (folder / "penstock.toml").write_text(TOML)
    (there / "app.py").write_text(APP)
    with two_machines(FIRST, SECOND) as (first, second), ExitStack() as stack:
        store, _, create = (shlex.split(line) for line in ON_FIRST.splitlines())
        assert store[0] == "valkey-server"
        redis = stack.enter_context(
            subprocess.Popen(
                first.inside(binary(VALKEY), *store[1:], "--dir", str(here)), stdout=subprocess.DEVNULL
            )
        )
        stack.callback(redis.kill)
        members = [
            started_by(unit, machine, number, folder)
            for machine, commands, folder in ((first, ON_FIRST, here), (second, ON_SECOND, there))
            for number, unit in enumerate(units(commands))
        ]
        for member in members:
            stack.callback(member.end)
            member.launch()
        for member in members:
            member.wait()
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("PENSTOCK_")}
        made = subprocess.run(
            first.inside(str(PENSTOCK), *create[1:]),
            cwd=here,
            env=inherited,
            capture_output=True,
            text=True,
            check=True,
        )
        yield Site(first, second, members, made.stdout.split()[0])


def test_a_client_of_either_machine_is_answered_by_the_function_on_the_second(site: Site) -> None:
    for machine in (site.first, site.second):
        eventually(lambda machine=machine: site.asked_from(machine, site.key).endswith(" 200"))  # type: ignore[misc]
        assert '"output":"HELLO"' in site.asked_from(machine, site.key)
    assert site.asked_from(site.second, "another").endswith(" 401")


def test_admin_planes_are_where_the_guide_says_and_for_their_own_machine_only(site: Site) -> None:
    for port in re.findall(r"\b(90\d\d) at", GUIDE):
        own, other = (site.first, site.second) if port < "9020" else (site.second, site.first)
        assert site.status(own, f"http://127.0.0.1:{port}/livez") == "200"
        assert site.status(other, f"http://{own.address}:{port}/livez") == "000"


def test_a_cable_that_was_out_is_noticed_and_once_it_is_back_everything_works_by_itself(site: Site) -> None:
    eventually(lambda: site.asked_from(site.first, site.key).endswith(" 200"))
    site.first.unplug()
    eventually(lambda: site.status(site.second, "http://127.0.0.1:9020/readyz") == "503")
    assert site.status(site.second, "http://127.0.0.1:9020/livez") == "200"
    assert not site.asked_from(site.first, site.key).endswith(" 200")
    site.first.plug()
    eventually(lambda: site.asked_from(site.first, site.key).endswith(" 200"))
    assert all(member.alive for member in site.members)
