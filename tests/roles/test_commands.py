"""The commands say what they do, and the file and the environment are obeyed."""

import json
from pathlib import Path

import pytest
from command_line import penstock, said

from penstock import __version__
from server import running

FILE = """\
[server]
drain = "7s"

[models.echo]
target = "sim:1ms"
max_batch = 8
"""


@pytest.mark.parametrize(
    ("command", "mentions"),
    [
        ([], "A batching gateway for GPU inference"),
        (["serve"], "penstock serve app.py:batchstring --workers 6"),
        (["bench"], "schedule fixed beforehand"),
        (["sim"], "Usage: penstock sim"),
        (["check"], "Validate a configuration"),
    ],
)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_every_command_explains_itself(command: list[str], mentions: str, flag: str) -> None:
    ended = penstock(*command, flag)
    assert ended.returncode == 0
    assert mentions in ended.stdout
    assert ended.stderr == ""


def test_the_version_is_the_packages() -> None:
    ended = penstock("--version")
    assert (ended.returncode, ended.stdout) == (0, f"penstock {__version__}\n")


def test_without_a_command_the_help_is_shown_and_nothing_is_done() -> None:
    ended = penstock()
    assert ended.returncode == 2
    assert "serve" in ended.stdout
    assert "Traceback" not in ended.stderr


def test_a_misspelt_command_is_one_line() -> None:
    ended = penstock("serv")
    assert ended.returncode == 2
    assert said(ended.stderr) == [
        "penstock: No such command 'serv'. Did you mean 'serve'? (see penstock --help)"
    ]


def test_check_tells_what_is_in_force_and_where_it_came_from(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text(FILE)
    ended = penstock(
        "check",
        "penstock.toml",
        "--json",
        "--all",
        directory=tmp_path,
        environment={"PENSTOCK_SERVER_PORT": "8123"},
    )
    assert ended.returncode == 0
    settings = {row["key"]: (row["value"], row["source"]) for row in json.loads(ended.stdout)["settings"]}
    assert settings["server.drain"] == ('"7s"', "penstock.toml:2")
    assert settings["server.port"] == ("8123", "PENSTOCK_SERVER_PORT")
    assert settings["models.echo.max_batch"] == ("8", "penstock.toml:6")
    assert settings["models.echo.policy"] == ('"paced"', "default")


def test_check_refuses_what_serve_would_refuse(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text(FILE.replace("drain", "drian"))
    ended = penstock("check", "penstock.toml", directory=tmp_path)
    assert ended.returncode == 2
    assert said(ended.stderr) == [
        "penstock: penstock.toml:2: unknown key 'drian' in [server]; did you mean 'drain'?"
    ]


def test_a_variable_goes_before_the_file_and_an_option_before_both() -> None:
    config = '[models.echo]\ntarget = "sim:1ms"\nmax_batch = 8\npolicy = "window"\nworkers = 1\n'
    environment = {"PENSTOCK_MODELS_ECHO_MAX_BATCH": "9", "PENSTOCK_MODEL_POLICY": "greedy"}
    with running(None, "--max-batch", "10", config=config, environment=environment) as server:
        assert server.banner[0].strip() == "echo: sim:1ms, 1 worker, up to 10 a batch, greedy"


def test_a_target_may_come_from_the_environment_alone() -> None:
    with running(environment={"PENSTOCK_MODEL_TARGET": "sim:1ms"}) as server:
        assert server.post("/api/inference", {"input": "hello"}).json()["output"] == "hello"


def test_the_banner_shows_a_line_that_works() -> None:
    with running("sim:1ms") as server:
        (line,) = [line.strip() for line in server.banner if "curl" in line]
        assert line == f'try it:  curl {server.url}/v1/inference --json \'{{"input": "hello"}}\''
        assert server.post("/v1/inference", {"input": "hello"}).status == 200
