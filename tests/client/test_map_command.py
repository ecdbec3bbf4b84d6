"""`penstock map`: lines in, lines out, and on where it was."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Typed, typed

from penstock.client import AsyncClient
from penstock.client.file_job import FileMap, Job
from penstock.client.json_lines import Form
from penstock.errors import UserMistake
from server import HUNG, PENSTOCK, Server, eventually, running

__all__ = ["typed"]

PICKY = """
def batch(inputs):
    return [ValueError("not this one") if each == "bad" else upper(each) for each in inputs]
def upper(each):
    return each.upper() if isinstance(each, str) else sorted(each)
"""
HELD = """
import os, time
def batch(inputs):
    while "hold" in inputs and not os.path.exists("open"):
        time.sleep(0.01)
    return inputs
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    file = tmp_path_factory.mktemp("functions") / "picky.py"
    file.write_text(PICKY)
    # One try, because it is the input that is bad.
    with running(f"{file}:batch", config="[retries]\nattempts = 1\n") as serving:
        yield serving


def write(file: Path, *values: object) -> Path:
    file.write_text("".join(json.dumps(value) + "\n" for value in values))
    return file


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def outputs(file: Path) -> dict[int, Any]:
    found = {line["line"]: line["output"] for line in lines(file)}
    assert len(found) == len(lines(file)), "a line was written twice"
    return found


def run_map(folder: Path, url: str, *options: str) -> "subprocess.CompletedProcess[str]":
    """As a user types it, in a process of its own."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    command = [str(PENSTOCK), "map", "in.jsonl", "out.jsonl", "--url", url, *options]
    return subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=HUNG
    )


Map = Callable[..., tuple[int, str, str]]


@pytest.fixture
def mapped(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Typed) -> Map:
    """The same in this process, which is quicker: its exit code, and what it printed."""
    monkeypatch.chdir(tmp_path)
    return lambda *options: typed("map", "in.jsonl", "out.jsonl", "--url", server.url, *options)


def test_each_line_has_its_answer_and_its_id(mapped: Map, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", {"id": "first", "input": "a"}, "b", {"input": "c"})
    code, out, err = mapped("--ordered")
    assert code == 0, err
    assert [(line["line"], line.get("id"), line["output"]) for line in lines(tmp_path / "out.jsonl")] == [
        (1, "first", "A"),
        (2, None, "B"),
        (3, None, "C"),
    ]
    assert out.startswith("3 done, 0 failed, in ")
    assert not (tmp_path / "out.failed.jsonl").exists()


def test_failures_are_apart_and_tried_again_by_the_next_run(mapped: Map, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", "a", "bad", {"inputs": "typo"}, "d")
    with (tmp_path / "in.jsonl").open("a") as file:
        file.write("not JSON\n\n")
    code, out, err = mapped()
    assert code == 1
    assert outputs(tmp_path / "out.jsonl") == {1: "A", 4: "D"}
    failed = {line["line"]: line for line in lines(tmp_path / "out.failed.jsonl")}
    assert {number: line["error"] for number, line in failed.items()} == {
        2: "BACKEND_FAILED",
        3: "BAD_LINE",
        5: "BAD_LINE",
    }
    assert "--field names another one" in failed[3]["message"]
    assert "1 × BACKEND_FAILED; the first is line 2: " in out

    write(tmp_path / "in.jsonl", "a", "good now", "c", "d")
    code, out, err = mapped()
    assert code == 0, err
    assert "2 done, 0 failed, 2 done before" in out
    assert outputs(tmp_path / "out.jsonl") == {1: "A", 2: "GOOD NOW", 3: "C", 4: "D"}


def test_what_was_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "held.py").write_text(HELD)
    write(tmp_path / "in.jsonl", *[f"text {number}" for number in range(20)], "hold")
    # One input a batch, with time enough: the last is held, and its client is killed meanwhile.
    patient = "[timeouts]\ntimeout = '60s'\n"
    with running(f"{tmp_path / 'held.py'}:batch", "--max-batch", "1", config=patient) as server:
        command = [str(PENSTOCK), "map", "in.jsonl", "out.jsonl", "--url", server.url, "--concurrency", "1"]
        with subprocess.Popen(command, cwd=tmp_path) as process:
            out = tmp_path / "out.jsonl"
            eventually(lambda: out.exists() and len(out.read_bytes().splitlines()) == 20)
            process.send_signal(signal.SIGKILL)
        with out.open("ab") as file:
            file.write(b'{"line":20,"input_h')  # a line that was cut off
        server.open()
        done = run_map(tmp_path, server.url)
    assert done.returncode == 0, done.stderr
    assert outputs(tmp_path / "out.jsonl") == {number + 1: f"text {number}" for number in range(20)} | {
        21: "hold"
    }


def test_ctrl_c_ends_with_what_is_done_and_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "held.py").write_text(HELD)
    write(tmp_path / "in.jsonl", "a", "hold", *[f"text {number}" for number in range(2000)])
    patient = "[timeouts]\ntimeout = '60s'\n"
    with running(f"{tmp_path / 'held.py'}:batch", "--max-batch", "1", config=patient) as server:
        command = [str(PENSTOCK), "map", "in.jsonl", "out.jsonl", "--url", server.url, "--concurrency", "1"]
        with subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            assert process.stdout is not None
            eventually(lambda: (tmp_path / "out.failed.jsonl").exists())
            process.send_signal(signal.SIGINT)
            assert "waiting for the answers under way" in process.stderr.readline()
            server.open()
            assert "the same command goes on" in process.stdout.read()
        assert process.returncode == 130
        before = len(outputs(tmp_path / "out.jsonl"))
        assert before < 2002
        done = run_map(tmp_path, server.url)
        assert done.returncode == 0, done.stderr
        assert f"{before:,} done before" in done.stdout
        assert len(outputs(tmp_path / "out.jsonl")) == 2002


def test_inputs_that_are_not_the_same_any_more_are_noticed(mapped: Map, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", "a", "b")
    assert mapped()[0] == 0
    write(tmp_path / "in.jsonl", "a", "another")
    code, _out, err = mapped()
    assert code == 2
    assert err == (
        "penstock: line 2 of in.jsonl is not what it was when its output was written: name another file for the"
        " outputs, or say --restart\n"
    )
    assert mapped("--restart")[0] == 0
    assert outputs(tmp_path / "out.jsonl") == {1: "A", 2: "ANOTHER"}


def test_a_file_of_something_else_is_not_written_over(mapped: Map, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", "a")
    (tmp_path / "out.jsonl").write_text("precious\n")
    code, _out, err = mapped()
    assert code == 2
    assert "line 1 was not written by `penstock map`" in err
    assert (tmp_path / "out.jsonl").read_text() == "precious\n"


@pytest.mark.parametrize("written", ["out.jsonl", "out.failed.jsonl"])
@pytest.mark.parametrize("kind", ["path", "link", "hard link", "standard input"])
def test_no_file_that_it_writes_may_be_the_one_that_it_reads(
    server: Server, tmp_path: Path, kind: str, written: str
) -> None:
    inputs = write(tmp_path / written, "a", "b")
    other = tmp_path / "other.jsonl"
    if kind == "link":
        other.symlink_to(inputs)
    elif kind == "hard link":
        other.hardlink_to(inputs)
    name = {"path": f"./{written}", "standard input": "-"}.get(kind, "other.jsonl")
    with inputs.open("rb") as stdin:
        refused = subprocess.run(
            [str(PENSTOCK), "map", name, "out.jsonl", "--url", server.url, "--restart"],
            cwd=tmp_path, stdin=stdin, capture_output=True, text=True, check=False, timeout=HUNG,
        )  # fmt: skip
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert f"{written} is the file of the inputs" in refused.stderr
    assert "name other outputs" in refused.stderr
    assert inputs.read_text() == '"a"\n"b"\n'
    assert {each.name for each in tmp_path.iterdir()} <= {written, "other.jsonl"}


def test_outputs_are_kept_where_the_inputs_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_text("precious\n")
    job = Job(str(tmp_path / "gone.jsonl"), tmp_path / "out.jsonl", Form(), restart=True)
    with pytest.raises(UserMistake, match="cannot read"):
        asyncio.run(FileMap(job, AsyncClient()).run())
    assert (tmp_path / "out.jsonl").read_text() == "precious\n"


def test_a_field_or_the_whole_line_may_be_the_input(mapped: Map, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", {"text": "a", "id": 7, "label": 3})
    assert mapped("--field", "text")[0] == 0
    [line] = lines(tmp_path / "out.jsonl")
    assert (line["id"], line["output"]) == (7, "A")
    assert mapped("--whole", "--restart")[0] == 0
    assert outputs(tmp_path / "out.jsonl") == {1: ["id", "label", "text"]}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--whole", "--field", "text"], "say one of them"),
        (["--parameters", "[1]"], "--parameters takes a JSON object"),
        (["--timeout", "soon"], "--timeout takes a duration"),
        (["--url", "ftp://a"], "is not an address to send to"),
        (["--ca-file", "missing.pem", "--url", "https://127.0.0.1:1"], "cannot be read as certificates"),
    ],
)
def test_mistakes_are_told_in_one_line(mapped: Map, tmp_path: Path, options: list[str], said: str) -> None:
    write(tmp_path / "in.jsonl", "a")
    code, _out, err = mapped(*options)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1


def test_inputs_may_come_from_another_program(server: Server, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(PENSTOCK), "map", "-", "out.jsonl", "--url", server.url],
        cwd=tmp_path, input='"a"\n"b"\n', capture_output=True, text=True, check=False, timeout=HUNG,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert outputs(tmp_path / "out.jsonl") == {1: "A", 2: "B"}


def test_two_runs_do_not_write_the_same_file(server: Server, tmp_path: Path) -> None:
    write(tmp_path / "in.jsonl", "a")
    holding = (
        "import fcntl, sys; file = open('out.jsonl', 'w'); fcntl.flock(file, fcntl.LOCK_EX);"
        "print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holding],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        refused = run_map(tmp_path, server.url)
        holder.stdin.close()
    assert refused.returncode == 2
    assert "another `penstock map` is writing out.jsonl" in refused.stderr
