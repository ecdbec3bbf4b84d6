"""`penstock init`: what it writes can be served as it is."""

import re
import subprocess
from pathlib import Path

import pytest
from command_line import Typed, penstock, typed

from penstock.cli.init import SECTIONS, settings_file
from penstock.config import load
from server import BANNER, PENSTOCK, call

__all__ = ["typed"]


def test_what_it_writes_passes_the_check_and_serves(tmp_path: Path) -> None:
    made = penstock("init", "my-model", directory=tmp_path)
    assert made.returncode == 0, made.stderr
    assert "cd my-model && penstock serve" in made.stdout
    folder = tmp_path / "my-model"
    checked = penstock("check", directory=folder)
    assert checked.returncode == 0, checked.stdout
    assert "warning" not in checked.stdout
    with subprocess.Popen(
        [PENSTOCK, "serve", "--port", "0", "--admin-port", "0"], cwd=folder, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    ) as server:  # fmt: skip
        try:
            assert server.stdout is not None
            url = next(found[1] for found in map(BANNER.search, server.stdout) if found)
            body = b'{"input": "Ada"}'
            answer = call(url, "POST", "/v1/inference", body, {"content-type": "application/json"})
            assert answer.json()["output"] == "Hello, Ada!"
        finally:
            server.terminate()


@pytest.mark.parametrize("name", ["app.py", "penstock.toml"])
def test_it_overwrites_nothing_unless_told_to(tmp_path: Path, typed: Typed, name: str) -> None:
    (tmp_path / name).write_text("mine")
    code, out, errors = typed("init", str(tmp_path))
    assert (code, out) == (2, "")
    assert errors.startswith(f"penstock: {name} in {tmp_path} would be overwritten")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert typed("init", str(tmp_path), "--force")[0] == 0
    assert (tmp_path / name).read_text() != "mine"


def test_a_folder_that_cannot_be_made_is_told_in_one_line(tmp_path: Path, typed: Typed) -> None:
    (tmp_path / "file").touch()
    code, _, errors = typed("init", str(tmp_path / "file" / "inside"))
    assert (code, len(errors.splitlines())) == (2, 1)


def test_every_line_that_is_commented_out_is_a_setting_and_its_default_unless_an_example(
    tmp_path: Path,
) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(re.sub(r"^# (\w+ = )", r"\1", settings_file(), flags=re.MULTILINE))
    taken = {setting.key: setting for setting in load(file, {}, {}).explain()}
    plain = {
        setting.key: setting.value
        for setting in load(None, {}, {"model.name": "hello", "model.target": "x:y"}).explain()
    }
    for section, entries in SECTIONS:
        for entry in entries:
            found = taken[f"{section}.{entry.key}"]
            assert found.source.startswith(str(file)), found
            assert found.value == (entry.example or plain[found.key])
