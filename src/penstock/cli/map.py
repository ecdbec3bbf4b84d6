"""`penstock map`: asks a server for each line of a file, and writes the answers into another. It reads
the options, runs `client/file_job.py`, and says what came of it."""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop
from rich.console import Console

from penstock.cli.options import seconds_of
from penstock.client.async_client import USUAL, AsyncClient
from penstock.client.file_job import STDIN, FileMap, Job, Tally
from penstock.client.json_lines import Form
from penstock.errors import UserMistake
from penstock.load.report import at_share

__all__ = ["map_lines"]

SHARES = (0.5, 0.95, 0.99)


def map_lines(
    inputs: Annotated[
        str, typer.Argument(help='Lines of JSON: {"input": …}, or the input itself; - is stdin.')
    ],
    outputs: Annotated[
        Path, typer.Argument(help="Gets a line for each answer. What it has is not asked again.")
    ],
    url: Annotated[str, typer.Option(help="The server.")] = USUAL,
    model: Annotated[str | None, typer.Option(help="Which model to ask.", show_default=False)] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="The most requests under way.")] = 256,
    ordered: Annotated[bool, typer.Option("--ordered", help="Write in the order of the inputs.")] = False,
    restart: Annotated[bool, typer.Option("--restart", help="Begin anew: what was written is lost.")] = False,
    field: Annotated[
        str, typer.Option(help="The field of each line that is the input; all others are passed over.")
    ] = "",
    whole: Annotated[bool, typer.Option("--whole", help="Each line is an input as it is.")] = False,
    parameters: Annotated[
        str | None, typer.Option(help="JSON, for lines that bring none.", show_default=False)
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(help="For each try: 30s, 2min.", show_default="the server's")
    ] = None,
    patience: Annotated[
        str, typer.Option(help="How long a line may be refused, or find no server, before it has failed.")
    ] = "5min",
    client_id: Annotated[
        str | None, typer.Option(help="Who asks, where the server asks for no key.", show_default=False)
    ] = None,
    ca_file: Annotated[
        Path | None,
        typer.Option(help="The authority of the server's certificate.", show_default="the system's"),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="Of the client, with its key, in one PEM file.", show_default=False)
    ] = None,
) -> int:
    """Ask for each line of a file, and write the answers into another. Interrupted, it goes on where it was.

    A line of the outputs has the number of its line in the inputs, its id if it has one, and the output. Lines that
    fail are in OUTPUTS.failed.jsonl, and are tried again when you say the same once more. An API key is taken from
    the variable PENSTOCK_API_KEY. The exit code is 1 if lines have failed.

    Examples:

      penstock map inputs.jsonl outputs.jsonl

      penstock map texts.jsonl out.jsonl --field text --url https://gpu.example:8000 --concurrency 512
    """
    if whole and field:
        raise UserMistake("--whole sends whole lines, and --field a part of each: say one of them")
    if inputs != STDIN and not Path(inputs).is_file():
        raise UserMistake(f"no such file {inputs}")
    if inputs == STDIN and sys.stdin is None:
        raise UserMistake("there is no standard input: it was closed")
    job = Job(
        inputs,
        outputs,
        Form(field, whole),
        concurrency,
        ordered,
        restart,
        None if timeout is None else seconds_of(timeout, "--timeout"),
        seconds_of(patience, "--patience"),
        _parameters(parameters),
    )
    client = AsyncClient(
        url, model=model, client_id=client_id, connections=concurrency, ca_file=ca_file,
        certificate=None if certificate is None else str(certificate),
    )  # fmt: skip

    async def run() -> Tally:
        file_map = FileMap(job, client)

        def interrupted() -> None:
            file_map.stop()
            errors.print("waiting for the answers under way; Ctrl-C again leaves at once")

        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupted)
        async with client:
            return await file_map.run()

    errors = Console(stderr=True)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        tally = runner.run(run())
    for line in told(tally, job):
        typer.echo(line)
    return 130 if tally.stopped else 1 if tally.failed else 0


def told(tally: Tally, job: Job) -> list[str]:
    """Returns the summary, in lines."""
    failed = sum(tally.failed.values())
    counts = [f"{tally.done:,} done", f"{failed:,} failed"]
    if tally.before:
        counts.append(f"{tally.before:,} done before")
    lines = [
        ", ".join(counts) + f", in {tally.seconds:.1f} s ({tally.done / max(tally.seconds, 1e-9):,.0f}/s)"
    ]
    if tally.done:
        latencies = sorted(tally.latencies)
        quantiles = " / ".join(f"{at_share(latencies, share) * 1000:.0f}" for share in SHARES)
        more = f", batches of {tally.batched / tally.done:.1f}"
        more += f", {tally.tokens:,} tokens" if tally.tokens else ""
        more += f", {tally.retried:,} sent again" if tally.retried else ""
        lines.append(f"p50 / p95 / p99 {quantiles} ms{more}")
    for code, count in tally.failed.most_common():
        lines.append(f"{count:,} × {code}; the first is {tally.first_messages[code]}")
    if failed:
        lines.append(f"failures are in {job.failures}; the same command tries them again")
    elif tally.stopped:
        lines.append("stopped before the end; the same command goes on")
    return lines


def _parameters(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise UserMistake(f"--parameters takes a JSON object such as '{{\"top_k\": 5}}', not {text[:60]!r}")
    return value
