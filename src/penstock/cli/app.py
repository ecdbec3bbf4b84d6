"""The commands."""

from typing import Annotated

import typer

from penstock import __version__
from penstock.cli.bench import bench
from penstock.cli.check import check
from penstock.cli.serve import serve
from penstock.cli.sim import sim

app = typer.Typer(
    name="penstock",
    help="A batching gateway for GPU inference: single requests in, full batches out.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(serve)
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
