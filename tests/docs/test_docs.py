"""What the documents say exists: links, commands, tests, and code that compiles and runs."""

import ast
import asyncio
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import Any, cast

import pytest
import typer.main

from edge_kit import Client
from penstock.cli.app import app_for
from penstock.cli.serve import serve
from penstock.config import load
from penstock.doors.data_plane import DataPlane
from penstock.doors.door import HttpLimits, Inside
from penstock.edge.edge import Edge, EdgeLimits
from penstock.errors import BackendCrashed, BackendUnavailable, BatchRejected, PenstockError
from penstock.ports import CallAsker, Gateway, Leaving
from penstock.service_model import SETTINGS
from penstock.testing import run_virtual
from penstock.types import (
    Accepted,
    Ask,
    Batch,
    Execution,
    Failure,
    Outcome,
    Reason,
    Reply,
    Request,
    WorkerId,
)
from wire import post

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")],
)
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
every_page = pytest.mark.parametrize("page", PAGES, ids=NAMES)

GUARANTEES = ROOT / "docs/guarantees.md"
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
COMMAND = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S+ )*(penstock (?:serve|bench|sim|check)\b.*)$")
TEST_FILE = re.compile(r"`(tests/[\w/]+\.py)`")
SOURCE = re.compile(r"`((?:src|tests|benchmarks|docs|examples)/[\w/.-]*[\w/])`")


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def commands(page: Path) -> Iterator[str]:
    """Every command line of ours, in fences and between backticks; a comment may follow it."""
    text = page.read_text()
    lines = [line for _, block in FENCE.findall(text) for line in block.splitlines()]
    lines += re.findall(r"`([^`\n]+)`", FENCE.sub("", text))
    for line in lines:
        if found := COMMAND.match(line.strip()):
            yield found[1]


def code(page: Path) -> list[str]:
    return [block for language, block in FENCE.findall(page.read_text()) if language == "python"]


@every_page
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@every_page
def test_every_command_line_shown_has_only_options_there_are(page: Path) -> None:
    known = typer.main.get_command(app_for([]))
    for line in commands(page):
        _, name, *words = shlex.split(line, comments=True)
        if any(not word.isascii() for word in words):
            continue  # an ellipsis: it shows a form, not a command
        command = getattr(known, "commands")[name]  # noqa: B009 - Typer has no public type for it
        options = {option for parameter in command.params for option in parameter.opts}
        given = [word.partition("=")[0] for word in words if word.startswith("-") and word != "-"]
        assert set(given) <= options | {"--help", "-h"}, line


def test_commands_are_found_in_the_readme() -> None:
    assert any("--max-batch" in line for line in commands(ROOT / "README.md"))


@every_page
def test_every_file_named_is_there(page: Path) -> None:
    text = FENCE.sub("", page.read_text())
    for name in SOURCE.findall(text):
        if not name.startswith(("benchmarks/results", "docs/adr/")):
            assert (ROOT / name).exists(), name


def test_every_promise_names_tests_and_every_figure_a_module() -> None:
    assert len(set(TEST_FILE.findall(GUARANTEES.read_text()))) >= 8
    modules = set(re.findall(r"python -m (benchmarks\.\w+)", (ROOT / "docs/benchmarks.md").read_text()))
    assert len(modules) >= 5
    for module in modules:
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), module


def test_every_row_of_promises_names_its_test() -> None:
    tables = re.findall(r"^\| promise \| test \|\n\|.*\n((?:\|.*\n)+)", GUARANTEES.read_text(), re.M)
    rows = [row for table in tables for row in table.splitlines()]
    untested = [row for row in rows if not TEST_FILE.search(row.rpartition(" | ")[2])]
    assert len(rows) >= 70
    assert all("no test of its own" in row for row in untested), untested
    assert len(untested) <= 1


@pytest.mark.parametrize("number", range(len(code(ROOT / "docs/extending.md"))))
def test_every_block_of_code_about_extending_compiles_and_runs(number: int) -> None:
    block(number)


def test_the_code_about_extending_is_accepted_by_the_type_checker(tmp_path: Path) -> None:
    for number, text in enumerate(code(ROOT / "docs/extending.md")):
        (tmp_path / f"block_{number}.py").write_text(text)
    (tmp_path / "block_checks.py").write_text(
        "from block_0 import CommandBackend\nfrom block_2 import HalfFull\nfrom block_4 import Slow\n"
        "from block_5 import Texts\n"
        "from penstock.core.policy import Policy\nfrom penstock.doors.door import Door, Inside\n"
        "from penstock.ports import Backend, Observer\n\n"
        'backend: Backend = CommandBackend("cat")\npolicy: Policy = HalfFull()\n'
        "observer: Observer = Slow(1.0)\n"
        "def door(inside: Inside) -> Door:\n    return Texts(inside)\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"), "."]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=110, check=False)
    assert checked.returncode == 0, checked.stdout


def block(number: int, page: str = "extending.md") -> dict[str, Any]:
    """What a block of a page defines."""
    defined: dict[str, Any] = {"__name__": f"block_{number}"}
    exec(compile(code(ROOT / "docs" / page)[number], f"{page}, block {number}", "exec"), defined)
    return defined


def class_in(source: str, name: str) -> str:
    """The text of a class."""
    [found] = [
        each for each in ast.parse(source).body if isinstance(each, ast.ClassDef) and each.name == name
    ]
    return ast.get_source_segment(source, found) or ""


def test_the_functions_that_are_shown_do_what_is_said_of_them() -> None:
    shown = code(ROOT / "docs/functions.md")
    assert len(shown) == 4
    assert block(0, "functions.md")["shout"](["a", "b"]) == ["A", "B"]
    model = block(1, "functions.md")["Model"]()
    model.setup()
    assert model(["a", "b"]) == ["hello a", "hello b"]
    # To run the third takes a model: tests/examples does that, where there is one.
    example = (ROOT / "examples/embedding/app.py").read_text()
    assert class_in(shown[2], "Embedder") == class_in(example, "Embedder")
    [output] = block(3, "functions.md")["generate"](["two words"])
    assert (output.value, output.tokens_used) == ("two words …", 2)


def batch(*inputs: str) -> Batch:
    requests = [Request(f"k{i}", "m", text.encode(), 0, 9, 9) for i, text in enumerate(inputs)]
    return Batch(1, "m", b"", requests, Reason.FULL, 0.0)


def test_the_command_backend_gives_each_input_back_and_names_what_goes_wrong() -> None:
    make = block(0)["CommandBackend"]

    async def body() -> None:
        echo = make("cat")
        with pytest.raises(BackendUnavailable):
            await echo.probe()
        await echo.start()
        await echo.probe()
        assert (await echo.run(batch('"a"', '"b"'))).outputs == [b'"a"', b'"b"']
        await echo.close()
        for script, error in (("echo '[1]'; cat", BatchRejected), ("read line", BackendCrashed)):
            broken = make("sh", "-c", script)
            await broken.start()
            with pytest.raises(error):
                await broken.run(batch('"a"', '"b"'))
            await broken.close()
        with pytest.raises(BackendUnavailable):
            await make("no-such-command").start()

    asyncio.run(body())


def test_the_policy_shown_can_be_tried_in_the_simulator_as_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.core.policy import POLICIES

    monkeypatch.setitem(POLICIES, "candidate", POLICIES["paced"])  # so that it is gone afterwards
    mean = block(3)["mean_latency"](block(2)["HalfFull"](), 300.0)
    assert 0.1 < mean < 0.2


def test_the_observer_shown_tells_of_slow_requests_and_of_the_batches_they_were_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    observer = block(4)["Slow"](0.5)
    quick, slow = (
        Execution(WorkerId("m/0"), 1, 1, 1.0, seconds, sealed=0.9, sent=1.0) for seconds in (0.1, 0.7)
    )
    request = Accepted("k", "m", b"1", 0.25, 9.0, 9.0, "r1", traceparent="00-trace-span-01")
    sealed = Batch(1, "m", b"", [request], Reason.FULL, 0.9)
    for execution in (quick, slow):
        observer.ended(sealed, execution, None)
        observer.answered([Reply(request, Outcome.SUCCESS, b"1", None, execution)], execution.ended - 0.5)
    observer.answered([Reply(request, Outcome.EXPIRED, failure=Failure("DEADLINE_EXCEEDED", "late"))], 9.0)
    first, second, third = (vars(record) for record in caplog.records)
    assert (first["msg"], first["seconds"], first["traces"]) == ("slow batch", 0.7, ["00-trace-span-01"])
    assert (second["msg"], second["id"], second["queue_seconds"]) == ("slow request", "r1", 0.75)
    assert third["queue_seconds"] is None


class Shouting:
    """A gateway that answers each ask with its text in capital letters."""

    asynchronous: Set[str | None] = frozenset()

    def kind_of(self, model: str | None) -> str:
        return "text"

    def clock(self) -> float:
        return 0.0

    def count(self, error: PenstockError, failure: Failure, request_id: str, door: str) -> None: ...

    def submit_all(self, asks: Sequence[Ask], asker: CallAsker) -> Leaving:
        requests = [Accepted("key", "m", ask.input, 0, 9, 9, ask.request_id or "") for ask in asks]
        asker.answered([Reply(request, Outcome.SUCCESS, request.input.upper()) for request in requests])
        return cast(Leaving, None)


def test_the_door_shown_turns_one_body_into_several_asks_and_their_replies_into_one_answer() -> None:
    async def body() -> None:
        inside = Inside(cast(Gateway, Shouting()), HttpLimits(max_asks=3))
        app = DataPlane(inside, [block(5)["Texts"](inside)], lambda: "id")
        loop = asyncio.get_running_loop()
        edge = Edge(app, EdgeLimits(), loop, loop.time)
        client = Client(edge)
        for texts in (b'["a", "b"]', b"[]", b'["a", "b", "c", "d"]', b"[5]"):
            client.send(post(b'{"texts": %b}' % texts, path="/texts"))
        heard = client.heard()
        assert heard.bodies[0] == b'{"results":["A","B"]}'
        assert heard.statuses == [200, 400, 413, 422]

    run_virtual(body())


def test_the_function_that_migrating_shows_gives_one_output_for_each_input() -> None:
    defined: dict[str, Any] = {}
    exec(compile(code(ROOT / "docs/migrating.md")[0], "migrating.md", "exec"), defined)
    assert defined["sentiment"](["a good day", "a day"]) == [{"label": "POSITIVE"}, {"label": "NEGATIVE"}]


def test_the_settings_that_migrating_shows_are_accepted(tmp_path: Path) -> None:
    blocks = [
        block for kind, block in FENCE.findall((ROOT / "docs/migrating.md").read_text()) if kind == "toml"
    ]
    assert len(blocks) == 3
    for number, text in enumerate(blocks):
        (file := tmp_path / f"{number}.toml").write_text(text)
        assert load(file, {}, {}).models["sentiment"].max_batch == 32


def test_every_setting_of_a_simulated_gpu_is_in_the_documents_and_in_the_help() -> None:
    page = (ROOT / "docs/configuration.md").read_text()
    table = page.partition("### Simulated GPUs")[2].partition("```")[0]
    assert set(SETTINGS) <= set(re.findall(r"`(\w+)`", table))
    assert set(SETTINGS) <= set(re.findall(r"\w+", str(serve.__doc__).partition("(sim:) has")[2]))
