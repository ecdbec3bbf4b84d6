"""The commands."""

from typing import Annotated

import typer

from penstock import __version__
from penstock.cli import dlq, keys
from penstock.cli.bench import bench
from penstock.cli.check import check
from penstock.cli.init import init
from penstock.cli.requests import requests
from penstock.cli.roles import batcher, gateway, worker
from penstock.cli.serve import serve
from penstock.cli.sim import sim
from penstock.cli.up import up
from penstock.cli.workers import workers

app = typer.Typer(
    name="penstock",
    help="A batching gateway for GPU inference: single requests in, full batches out.\n\n"
    "Start here: `penstock init`, then `penstock serve`.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(init)
app.command()(serve)
app.command()(gateway)
app.command()(batcher)
app.command()(worker)
app.command()(up)
app.command()(workers)
app.add_typer(dlq.app, name="dlq")
app.add_typer(keys.app, name="keys")
app.command()(requests)
app.command()(bench)
app.command()(sim)
app.command()(check)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
