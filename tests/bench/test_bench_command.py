"""`penstock bench` as people call it."""

import json
import os
import signal
import subprocess
import sys
import threading
from html.parser import HTMLParser
from pathlib import Path

import pytest
import typer
from tiny_server import Answer, Ask, TinyServer
from typer.testing import CliRunner

from penstock.cli.bench import bench
from penstock.errors import UserMistake

app = typer.Typer()
app.command()(bench)
QUICK = ["--rate", "200", "--duration", "100ms", "--warmup", "0s"]
PROGRAM = "import typer; from penstock.cli.bench import bench; a = typer.Typer(); a.command()(bench); a()"
METRICS = (
    'penstock_batches_total{{model="m",reason="full"}} {n}\n'
    'penstock_batched_requests_total{{model="m"}} {n}\n'
    'penstock_worker_busy_seconds_total{{model="m"}} 0\npenstock_workers{{model="m",state="idle"}} 2\n'
)


class Page(HTMLParser):
    """Collects what a page loads from elsewhere, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [value for name, value in attrs if name in ("src", "href") and value]

    def handle_data(self, data: str) -> None:
        self.words += data


def serve_with_metrics(ask: Ask) -> Answer:
    return Answer(body=METRICS.format(n=ask.number).encode()) if ask.path == "/metrics" else Answer()


def test_of_each_error_it_says_what_the_server_said_first() -> None:
    refusal = b'{"error":"UNACCEPTABLE","message":"number %d\\u001b[2J"}'
    with TinyServer(lambda ask: Answer(422, refusal % min(ask.number, 1))) as server:
        result = CliRunner().invoke(app, [server.url, *QUICK, "--admin", "http://127.0.0.1:1"])
    assert "UNACCEPTABLE: number 0 [2J" in result.stdout  # nothing of it moves the cursor
    assert "number 1" not in result.stdout


def test_json_on_stdout_is_nothing_but_json() -> None:
    with TinyServer() as server:
        result = CliRunner().invoke(app, [server.url, *QUICK, "--json", "-", "--admin", "http://127.0.0.1:1"])
    assert result.exit_code == 0, result.output
    fields = json.loads(result.stdout)
    assert fields["ok"] == fields["sent"] == len(server.asks)
    assert (fields["busy"], fields["batch"]["reasons"]) == (None, {})
    assert "latency" in result.stderr


def test_batch_figures_come_from_the_admin_plane(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    with TinyServer(serve_with_metrics) as server:
        result = CliRunner().invoke(app, [server.url, *QUICK, "--json", str(out), "--admin", server.url])
    assert result.exit_code == 0, result.output
    fields = json.loads(out.read_text())
    assert (list(fields["batch"]["reasons"]), fields["busy"]) == (["full"], 0)
    assert fields["batch"]["mean_size"] == 1


@pytest.mark.parametrize("status", [200, 503])
def test_the_html_report_needs_nothing_but_itself(tmp_path: Path, status: int) -> None:
    out = tmp_path / "out.html"
    with TinyServer(lambda ask: Answer(status)) as server:
        result = CliRunner().invoke(app, [f"{server.url}/?a=<b>", *QUICK, "--html", str(out)])
    assert result.exit_code == 0, result.output
    page = Page(out.read_text())
    assert page.loads == []
    assert "Throughput" in page.words
    assert ("Latency over time" in page.words) == (status == 200)
    assert "?a=<b>" in page.words  # as text, not as a tag


def test_an_unreachable_server_is_a_mistake_in_one_line() -> None:
    result = CliRunner().invoke(app, ["http://127.0.0.1:1"])
    assert isinstance(result.exception, UserMistake)
    assert "\n" not in str(result.exception)


def test_a_report_with_no_place_to_go_is_told_before_the_run(tmp_path: Path) -> None:
    with TinyServer() as server:
        result = CliRunner().invoke(app, [server.url, *QUICK, "--html", str(tmp_path / "none" / "out.html")])
    assert isinstance(result.exception, UserMistake)
    assert server.asks == []


def test_a_file_that_cannot_be_written_is_a_mistake_in_one_line(tmp_path: Path) -> None:
    with TinyServer() as server:
        result = CliRunner().invoke(app, [server.url, *QUICK, "--json", str(tmp_path)])
    assert isinstance(result.exception, UserMistake)
    assert "Is a directory" in str(result.exception)


def test_tiers_and_a_trace_reach_the_server(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        + "".join(f"2023-11-16 18:17:{second:02},{second},1\n" for second in range(20))
    )
    options = ["--trace", str(path), "--tiers", "acme=1", "--model", "m"]
    with TinyServer() as server:
        result = CliRunner().invoke(app, [server.url, *QUICK, *options])
    assert result.exit_code == 0, result.output
    asked = [json.loads(ask.body) for ask in server.asks]
    # Each goes over a connection of its own, so the order of arrival is the server's.
    assert sorted(len(fields["input"]) for fields in asked) == [4 * second for second in range(20)]
    assert {(fields["client_id"], fields["model"]) for fields in asked} == {("acme", "m")}


def test_ctrl_c_reports_what_was_measured_so_far() -> None:
    enough = threading.Event()

    def respond(ask: Ask) -> Answer:
        if ask.number == 20:
            enough.set()
        return Answer()

    with TinyServer(respond) as server:
        command = [
            sys.executable,
            "-c",
            PROGRAM,
            server.url,
            "--duration",
            "1h",
            "--warmup",
            "0s",
            "--rate",
            "100",
        ]
        with subprocess.Popen(
            [*command, "--json", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as child:
            enough.wait()
            os.kill(child.pid, signal.SIGINT)
            out, err = child.communicate()
    assert child.returncode == 0, err.decode()
    fields = json.loads(out)
    assert 20 < fields["ok"] == fields["sent"] < 360_000
    assert fields["duration_s"] < 3600
