"""The wheel, installed where nothing else is but what it asks for: it serves, and says what needs an extra."""

import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from email.parser import HeaderParser
from importlib.metadata import distribution
from pathlib import Path
from sysconfig import get_path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from server import BANNER, call

ROOT = Path(__file__).parents[2]
EXTRAS = {"redis", "jwt", "postgres", "grpc", "ws", "all"}
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `make wheel` builds it: with the locked build tools, and without a network."""
    folder = tmp_path_factory.mktemp("dist")
    build = [
        "wheel",
        "--no-index",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(folder),
        str(ROOT),
    ]
    subprocess.run([*PIP, *build], check=True, timeout=100, capture_output=True)
    return next(folder.glob("penstock-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment with the wheel and its dependencies, and without any extra."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=100)
    python = folder / "bin" / "python"
    put = ["--python", str(python), "install", "--no-index", "--no-deps", str(wheel)]
    subprocess.run([*PIP, *put], check=True, timeout=100, capture_output=True)
    there = Path(get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    for name in needed(metadata(wheel).get_all("Requires-Dist", [])):
        for part in {file.parts[0] for file in distribution(name).files or ()} - {"..", "__pycache__"}:
            place = Path(str(distribution(name).locate_file(part)))
            if place.exists() and not (there / part).exists():
                (there / part).symlink_to(place)
    return python.parent


def metadata(wheel: Path) -> Any:
    with zipfile.ZipFile(wheel) as archive:
        name = next(each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return HeaderParser().parsestr(archive.read(name).decode())


def needed(lines: list[str], extras: frozenset[str] = frozenset({""})) -> Iterator[str]:
    """What is asked for without an extra, and what that asks for in turn."""
    for requirement in map(Requirement, lines):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras):
            yield requirement.name
            more = frozenset({"", *requirement.extras})
            yield from needed(distribution(requirement.name).requires or [], more)


def test_the_wheel_has_the_extras_and_all_of_them_at_once(wheel: Path) -> None:
    said = metadata(wheel)
    assert set(said.get_all("Provides-Extra")) == EXTRAS
    lines = [Requirement(line) for line in said.get_all("Requires-Dist")]
    by_extra = {
        extra: {each.name for each in lines if each.marker and each.marker.evaluate({"extra": extra})}
        for extra in EXTRAS
    }
    everything = by_extra.pop("all")
    assert all(by_extra.values())
    assert everything == set().union(*by_extra.values())


def test_the_lock_has_what_the_image_is_built_from_and_runs_with(wheel: Path) -> None:
    """The Dockerfile installs the lock, and then the wheel without asking what that needs."""
    lock = (ROOT / "requirements.lock").read_text()
    versions = dict(re.findall(r"^([\w.-]+)(?:\[\w+\])?==(\S+)", lock, re.MULTILINE))
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    asked = [*metadata(wheel).get_all("Requires-Dist", []), *build]
    with_redis = frozenset({"", "redis"})
    for requirement in map(Requirement, asked):
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": e}) for e in with_redis):
            assert versions[canonicalize_name(requirement.name)] in requirement.specifier
    assert {canonicalize_name(name) for name in needed(asked, with_redis)} <= set(versions)


def test_it_serves_a_function_from_an_environment_with_nothing_else(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def shout(inputs):\n    return [text.upper() for text in inputs]\n")
    where = "import penstock; print(penstock.__file__)"
    found = subprocess.run([installed / "python", "-c", where], capture_output=True, text=True, check=True)
    assert found.stdout.startswith(str(installed.parent))
    command = [str(installed / "penstock"), "serve", "app.py:shout", "--port", "0", "--admin-port", "0"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            assert server.stdout is not None
            url = next(found[1] for found in map(BANNER.search, server.stdout) if found)
            body = b'{"input": "hello"}'
            answer = call(url, "POST", "/v1/inference", body, {"content-type": "application/json"})
            assert (answer.status, answer.json()["output"]) == (200, "HELLO")
        finally:
            server.terminate()
    assert server.returncode == 0


def test_what_needs_an_extra_says_which(installed: Path) -> None:
    ended = subprocess.run(
        [installed / "penstock", "up", "sim:1ms"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stderr) == (
        2,
        "penstock: this needs the redis extra: pip install 'penstock[redis]'\n",
    )
