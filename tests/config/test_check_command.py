"""`penstock check`."""

import json
import os
import socket
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from penstock.cli.check import check
from penstock.errors import UserMistake

app = typer.Typer()
app.command()(check)

APP = "print('loading')\n\ndef embed(inputs):\n    return inputs\n"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A penstock.toml in the working directory, with one doubtful setting."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("PENSTOCK_") or name == "FORCE_COLOR"]:
        monkeypatch.delenv(name)
    file = Path("penstock.toml")
    file.write_text('[models.embed]\ntarget = "app.py:embed"\nmax_wait = "9s"\n', encoding="utf-8")
    Path("app.py").write_text(APP)
    return file


def lines(*arguments: str, fails: bool = False) -> list[str]:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False, standalone_mode=False)
    assert result.return_value == (2 if fails else 0)
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


def test_it_prints_what_is_in_force_and_where_from(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_MODELS_EMBED_VERSION", "[/not markup]")
    printed = lines("--all", "--no-targets")
    assert 'max_wait "9s" penstock.toml:3' in printed
    assert 'version "[/not markup]" PENSTOCK_MODELS_EMBED_VERSION' in printed
    assert "max_cost not set default" in printed
    assert printed[-1] == "penstock.toml is valid"


def test_what_is_at_its_default_is_shown_only_when_asked_for(file: Path) -> None:
    printed = lines("--no-targets")
    assert [line for line in printed if line.startswith(("[", "target", "max_", "workers"))] == [
        "[models.embed]",
        'target "app.py:embed" penstock.toml:2',
        'max_wait "9s" penstock.toml:3',
    ]
    assert "all else is at its default (--all shows it)" in printed
    said = json.loads("\n".join(lines("--no-targets", "--json")))
    assert [row["key"] for row in said["settings"]] == ["models.embed.target", "models.embed.max_wait"]


def test_the_file_may_be_named_as_every_other_command_takes_it(file: Path) -> None:
    file.rename("other.toml")
    assert lines("-c", "other.toml", "--no-targets") == lines("other.toml", "--no-targets")
    with pytest.raises(UserMistake, match="name one file only"):
        lines("other.toml", "--config", "third.toml")


def test_every_target_is_tried(file: Path) -> None:
    """A function is loaded, here also the one that tells costs, and an endpoint is connected to."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/batch"
        file.write_text(
            f'[models.a]\ntarget = "app.py:embed"\ncost = "app.py:embed"\n[models.b]\ntarget = "{url}"\n'
        )
        said = json.loads("\n".join(lines("--json")))
    assert [(each["key"], each["error"]) for each in said["targets"]] == [
        ("models.a.target", ""),
        ("models.b.target", ""),
        ("models.a.cost", ""),
    ]


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("ap.py:embed", "no such file ap.py; did you mean app.py?"),
        ("app.py:embd", "app.py has no function 'embd'; did you mean 'embed'?"),
        (
            "broken.py:embed",
            "cannot import broken.py: ModuleNotFoundError: No module named 'none_such' (line 1)",
        ),
        ("http://127.0.0.1:1/batch", "127.0.0.1:1 cannot be reached"),
    ],
)
def test_a_target_that_cannot_be_used_is_told_and_fails_the_check(file: Path, target: str, why: str) -> None:
    Path("broken.py").write_text(f"import none_such\n{APP}")
    file.write_text(f'[models.embed]\ntarget = "{target}"\n')
    printed = lines(fails=True)
    assert any(line.startswith(f"error: models.embed.target is {target}: {why}") for line in printed)
    assert printed[-1] == "penstock.toml is valid, but 1 of 1 targets cannot be used"


def test_what_somebody_has_set_stands_first_in_its_section(file: Path) -> None:
    printed = lines("penstock.toml", "--all", "--no-targets")
    section = printed.index("[models.embed]")
    assert [line.split()[0] for line in printed[section + 1 : section + 4]] == [
        "target",
        "max_wait",
        "workers",
    ]


def test_it_warns_of_what_is_probably_not_meant(file: Path) -> None:
    assert any(line.startswith("warning: models.embed.max_wait is 9s") for line in lines("--no-targets"))


def test_json_says_the_same(file: Path) -> None:
    said = json.loads("\n".join(lines("--json", "--no-targets")))
    assert {"key": "models.embed.max_wait", "value": '"9s"', "source": "penstock.toml:3"} in said["settings"]
    assert (said["file"], len(said["warnings"])) == ("penstock.toml", 1)


def test_an_invalid_file_is_a_users_mistake(file: Path) -> None:
    file.write_text("[server]\nprot = 1\n", encoding="utf-8")
    with pytest.raises(UserMistake, match="unknown key 'prot'"):
        lines()
