"""`penstock check`."""

import json
import os
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from penstock.cli.check import check
from penstock.errors import UserMistake

app = typer.Typer()
app.command()(check)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A penstock.toml in the working directory, with one doubtful setting."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PENSTOCK_") or name == "FORCE_COLOR"]:
        monkeypatch.delenv(name)
    file = Path("penstock.toml")
    file.write_text('[models.embed]\ntarget = "app.py:embed"\nmax_wait = "9s"\n', encoding="utf-8")
    return file


def lines(*arguments: str) -> list[str]:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0
    return [" ".join(line.split()) for line in result.output.splitlines()]


def test_it_prints_what_is_in_force_and_where_from(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_MODELS_EMBED_VERSION", "[/not markup]")
    printed = lines()
    assert 'max_wait "9s" penstock.toml:3' in printed
    assert 'version "[/not markup]" PENSTOCK_MODELS_EMBED_VERSION' in printed
    assert "max_cost not set default" in printed
    assert printed[-1] == "penstock.toml is valid"


def test_what_somebody_has_set_stands_first_in_its_section(file: Path) -> None:
    printed = lines("penstock.toml")
    section = printed.index("[models.embed]")
    assert [line.split()[0] for line in printed[section + 1 : section + 4]] == [
        "target",
        "max_wait",
        "workers",
    ]


def test_it_warns_of_what_is_probably_not_meant(file: Path) -> None:
    assert any(line.startswith("warning: models.embed.max_wait is 9s") for line in lines())


def test_json_says_the_same(file: Path) -> None:
    said = json.loads("\n".join(lines("--json")))
    assert {"key": "models.embed.max_wait", "value": '"9s"', "source": "penstock.toml:3"} in said["settings"]
    assert (said["file"], len(said["warnings"])) == ("penstock.toml", 1)


def test_an_invalid_file_is_a_users_mistake(file: Path) -> None:
    file.write_text("[server]\nprot = 1\n", encoding="utf-8")
    with pytest.raises(UserMistake, match="unknown key 'prot'"):
        lines()
