"""The table of commands, for `main` in `cli/__init__.py`. Only the command that is asked for is imported, because
all of them would take half a second."""

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from penstock import __version__

# In the order of the help. The values are module:name; a Typer there is a group of commands.
COMMANDS = {
    "init": "init:init",
    "serve": "serve:serve",
    "gateway": "roles:gateway",
    "batcher": "roles:batcher",
    "worker": "roles:worker",
    "up": "up:up",
    "workers": "workers:workers",
    "top": "top:top",
    "dlq": "dlq:app",
    "keys": "keys:app",
    "requests": "requests:requests",
    "explain": "explain:explain",
    "map": "map:map_lines",
    "bench": "bench:bench",
    "sim": "sim:sim",
    "plan": "plan:plan",
    "tune": "tune:tune",
    "check": "check:check",
    "drain": "drain:drain",
}


def app_for(arguments: Sequence[str]) -> typer.Typer:
    """Returns the command line with the command that these arguments name; with all commands if they name none."""
    app = typer.Typer(
        name="penstock",
        help="A batching gateway for GPU inference: single requests in, full batches out.\n\n"
        "Start here: `penstock init`, then `penstock serve`.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    asked = arguments[0] if arguments else ""
    for name in [asked] if asked in COMMANDS else [] if asked == "--version" else COMMANDS:
        module, _, attribute = COMMANDS[name].partition(":")
        command = getattr(import_module(f"penstock.cli.{module}"), attribute)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"penstock {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
