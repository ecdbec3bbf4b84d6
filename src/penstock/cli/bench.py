"""`penstock bench`: sends load to a running server and reports latencies. It reads the options, runs `bench/`, and
writes the report to the terminal and to files."""

import asyncio
import signal
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
import uvloop
from rich.console import Console
from rich.text import Text

from penstock.bench.html import page
from penstock.bench.load import Load, Run
from penstock.bench.options import parse_clients, parse_payload, parse_server, reach
from penstock.bench.plan import Shape, make_plan
from penstock.bench.progress import Progress
from penstock.cli.options import seconds_of
from penstock.errors import UserMistake
from penstock.load.report import tables

__all__ = ["bench"]


def bench(
    url: Annotated[str, typer.Argument(help="The server; without a path, POST /v1/inference is meant.")],
    rate: Annotated[float, typer.Option(help="Requests a second, on average.")] = 1000.0,
    duration: Annotated[str, typer.Option(help="How long to measure: 30s, 500ms, 2m.")] = "30s",
    arrivals: Annotated[str, typer.Option(help="poisson, uniform, bursty, day or trace.")] = "poisson",
    trace: Annotated[
        Path | None, typer.Option(help="CSV with TIMESTAMP and ContextTokens, replayed at --rate.")
    ] = None,
    payload_size: Annotated[
        int | None, typer.Option(min=0, help="Characters of input; 2048 unless a trace says otherwise.")
    ] = None,
    payload: Annotated[
        str | None, typer.Option(help="The input instead: a file, or JSON; each request sends the same.")
    ] = None,
    timeout_ms: Annotated[
        int | None, typer.Option(min=1, help="Sent as timeout_ms; answers after it count as late.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Which model to ask.")] = None,
    tiers: Annotated[
        str | None, typer.Option(help="Client ids with weights, acme=0.2,free=0.8; sent as client_id.")
    ] = None,
    connections: Annotated[int, typer.Option(min=1, help="The most to hold open.")] = 20_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same schedule.")] = 0,
    warmup: Annotated[str, typer.Option(help="Load before the measuring starts, left out of it.")] = "2s",
    json: Annotated[str | None, typer.Option(help="Write the figures to this file; - is stdout.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a report with charts to this file.")] = None,
    admin: Annotated[
        str | None,
        typer.Option(
            show_default="port 9000 of the same host",
            help="The admin plane of the server or of a gateway, for batch figures.",
        ),
    ] = None,
) -> None:
    """Send requests on a schedule fixed beforehand, and report latency from the scheduled times.

    Batch figures come from the server's admin plane; over Redis, from the batchers that it names.

    Examples:

      penstock bench http://127.0.0.1:8000 --rate 1000 --duration 30s --html report.html

      penstock bench http://127.0.0.1:8000 --payload '{"text": "hello"}' --timeout-ms 200 --json -
    """
    server = parse_server(url)
    shape = Shape(
        rate=rate,
        duration=seconds_of(duration, "--duration"),
        warmup=seconds_of(warmup, "--warmup"),
        arrivals="trace" if trace is not None and arrivals == "poisson" else arrivals,
        trace=trace,
        payload_size=payload_size,
        payload=None if payload is None else parse_payload(payload),
        timeout_ms=timeout_ms,
        model=model,
        clients=parse_clients(tiers) if tiers is not None else (),
        seed=seed,
    )
    for path in (html, Path(json) if json else None):  # a missing folder is found now, not after the run
        if path is not None and not path.absolute().parent.is_dir():
            raise UserMistake(f"cannot write {path}: there is no folder {path.absolute().parent}")
    plan = make_plan(shape, server)
    address = reach(server)
    errors = Console(stderr=True)

    async def measure(progress: Progress | None) -> Run:
        load = Load(plan, address, connections=connections, admin=admin or server.admin, on_second=progress)
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, load.stop)
        return await load.run()

    with (
        Progress(errors) if errors.is_terminal else nullcontext() as progress,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        run = runner.run(measure(progress))
    figures = run.summary.as_json()
    if json == "-":
        print(figures)
    out = errors if json == "-" else Console()
    out.print(tables(run.summary))
    for code, message in run.outcomes.messages.items():
        if message and code in run.summary.errors:
            out.print(Text(f"{code}: {message}"))
    if json is not None and json != "-":
        _write(Path(json), figures + "\n")
    if html is not None:
        _write(html, page(run, server.url, shape))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserMistake(f"cannot write {path}: {error.strerror}") from None
