"""A mistake on the command line, in the file or in the user's code is one clear line and exit code 2."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import penstock, said

ANY_PORT = ("--port", "0", "--admin-port", "0")


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text("def batchstring(inputs):\n    return inputs\n")
    (tmp_path / "no_such_import.py").write_text(
        "import nowhere_to_be_found\n\ndef batchstring(inputs): ...\n"
    )
    (tmp_path / "raises.py").write_text("def batchstring(inputs): ...\n\n1 / 0\n")
    (tmp_path / "leaves.py").write_text("import sys\n\ndef batchstring(inputs): ...\n\nsys.exit(3)\n")
    (tmp_path / "takes_nothing.py").write_text("def batchstring():\n    return []\n")
    return tmp_path


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]


def mistake(workplace: Path, *words: str) -> str:
    """The one line that was said."""
    ended = penstock("serve", *words, directory=workplace)
    assert ended.returncode == 2, ended.stderr
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    (line,) = said(ended.stderr)
    assert line.startswith("penstock: ")
    return line


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["ap.py:batchstring"], "no such file ap.py; did you mean app.py?"),
        (["elsewhere/app.py:batchstring"], "no such file elsewhere/app.py; looked in "),
        (["app.py:batchstrng"], "app.py has no function 'batchstrng'; did you mean 'batchstring'?"),
        (["app.py"], "which function of app.py? write app.py:batchstring"),
        (["nowhere:batchstring"], "no module named 'nowhere'"),
        (["localhost:9000/batch"], "did you mean http://localhost:9000/batch?"),
        (["ftp://gpu-1/batch"], "no target begins with ftp://; a target is app.py:function"),
        (["what is this"], "cannot tell what 'what is this' is"),
        (["sim:fast"], "a=fast is not a time such as 100ms"),
        ([], "nothing to serve: give a TARGET"),
    ],
)
def test_a_target_that_is_not_there_is_named_and_put_right(
    workplace: Path, words: list[str], told: str
) -> None:
    assert told in mistake(workplace, *words)


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ("no_such_import.py", "ModuleNotFoundError: No module named 'nowhere_to_be_found' (line 1)"),
        ("raises.py", "ZeroDivisionError: division by zero (line 3)"),
        ("leaves.py", "cannot import leaves.py: SystemExit: 3"),
        ("takes_nothing.py", "must take one list of inputs"),
    ],
)
def test_user_code_that_cannot_be_loaded_is_told_with_its_line(workplace: Path, file: str, told: str) -> None:
    assert told in mistake(workplace, f"{file}:batchstring", *ANY_PORT)


@pytest.mark.parametrize(("flag", "told"), [("--port", "--port or --host"), ("--admin-port", "--admin-port")])
def test_a_port_in_use_is_told_with_the_option_that_changes_it(
    workplace: Path, taken_port: int, flag: str, told: str
) -> None:
    line = mistake(workplace, "app.py:batchstring", *ANY_PORT, flag, str(taken_port))
    assert f"cannot listen on 127.0.0.1:{taken_port}: Address already in use" in line
    assert line.endswith(f"choose another with {told}")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--policy", "pace"], '--policy: models.batchstring.policy must be one of "paced"'),
        (["--max-wait", "5parsecs"], "--max-wait: models.batchstring.max_wait must be a duration"),
        (["--port", "99999"], "--port: server.port must be a whole number from 0 to 65535"),
        (["--port", "http"], "penstock: --port must be a whole number (see penstock serve --help)"),
        (["--auth", "badge"], '--auth: auth.mode must be one of "auto"'),
        (["--workers", "0"], "--workers: models.batchstring.workers must be"),
        (["--prot", "1"], "No such option: --prot"),
        (["--config", "nowhere.toml"], "nowhere.toml: there is no such file"),
        (["another.py:batchstring"], "unexpected extra argument"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(workplace: Path, words: list[str], told: str) -> None:
    assert told in mistake(workplace, "app.py:batchstring", *words)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[server]\nprot = 1\n", "penstock.toml:2: unknown key 'prot' in [server]; did you mean 'port'?"),
        ("[timeouts]\nqueue = '5 parsecs'\n", "penstock.toml:2: timeouts.queue must be a duration"),
        ("[limits]\nmax_body = '1 lot'\n", "penstock.toml:2: limits.max_body must be a size"),
        ("[models.m]\ntarget = 'sim:1ms'\npolicy = 'pace'\n", "penstock.toml:3: models.m.policy must be one"),
        ("[tiers]\ndefault = 'fre'\n", "tiers.default is 'fre', which is not a tier"),
        ("[server\n", "penstock.toml: is not valid TOML"),
    ],
)
def test_a_slip_in_the_file_is_told_with_its_place(workplace: Path, text: str, told: str) -> None:
    (workplace / "penstock.toml").write_text(text)
    assert told in mistake(workplace, "app.py:batchstring")


def test_a_variable_nobody_knows_is_refused(workplace: Path) -> None:
    ended = penstock(
        "serve", "app.py:batchstring", directory=workplace, environment={"PENSTOCK_SERVER_PROT": "1"}
    )
    assert ended.returncode == 2
    assert said(ended.stderr) == [
        "penstock: unknown environment variable 'PENSTOCK_SERVER_PROT'; did you mean 'PENSTOCK_SERVER_PORT'?"
    ]


def test_debug_shows_the_traceback_of_user_code(workplace: Path) -> None:
    ended = penstock("serve", "raises.py:batchstring", *ANY_PORT, "--debug", directory=workplace)
    assert ended.returncode == 2
    first, *rest = said(ended.stderr)
    assert first == "penstock: cannot import raises.py: ZeroDivisionError: division by zero (line 3)"
    assert rest[0].startswith("Traceback")
    assert "ZeroDivisionError: division by zero" in rest


def test_the_debug_variable_shows_where_a_mistake_was_noticed(workplace: Path) -> None:
    ended = penstock("serve", "ap.py:batchstring", directory=workplace, environment={"PENSTOCK_DEBUG": "1"})
    assert ended.returncode == 2
    assert "Traceback (most recent call last):" in ended.stderr


def test_a_record_that_cannot_be_written_is_named(workplace: Path) -> None:
    said = mistake(workplace, "app.py:batchstring", *ANY_PORT, "--record", "missing/arrivals.csv")
    assert "trace.record: cannot write missing/arrivals.csv (No such file or directory)" in said
    (workplace / "notes.txt").write_text("mine\n")
    assert "(it holds something else)" in mistake(
        workplace, "app.py:batchstring", *ANY_PORT, "--record", "notes.txt"
    )
    small = ("--config", "small.toml")
    (workplace / "small.toml").write_text('[trace]\nrecord = "a.csv"\nlimit = "1KB"\n')
    assert "trace.limit must be at least 64KiB" in mistake(workplace, "app.py:batchstring", *ANY_PORT, *small)
