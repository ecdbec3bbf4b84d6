"""`penstock top`: how everything stands, in the terminal, live. It asks a server's admin plane (`ask_admin.py`),
and `top/` draws."""

import shutil
import sys
from typing import Annotated

import msgspec
import typer

from penstock.cli.ask_admin import USUAL, Admin, ask
from penstock.cli.options import seconds_of
from penstock.errors import UserMistake
from penstock.overview.overview import Overview
from penstock.top.screen import everything
from penstock.top.watch import watch

SHORTEST, LONGEST = 0.2, 60.0  # seconds between two looks
NARROWEST = 100  # columns, where the output is no terminal


def top(
    admin: Admin = USUAL,
    once: Annotated[bool, typer.Option("--once", help="Look once, print all lists, and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="With --once: as JSON.")] = False,
    every: Annotated[str, typer.Option(help="How often to look: 1s, 500ms, 5s.")] = "1s",
) -> int:
    """How everything stands, live: what it does, what is wrong, what to change. Over Redis it shows all processes,
    by way of any of them. Press ? for the keys.

    Examples:

      penstock top

      penstock top --admin http://gpu-1:9000

      penstock top --once --json
    """
    interval = _interval(every)
    if as_json and not once:
        raise UserMistake("--json prints one overview and ends: say --once --json")

    def fetch() -> Overview:
        return _typed(ask(admin, "/internal/overview"))

    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(fetch()), indent=2).decode())
        return 0
    if once:
        width = shutil.get_terminal_size((NARROWEST, 24)).columns
        for line in everything(fetch(), width):
            typer.echo(line.text)
        return 0
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserMistake("`penstock top` needs a terminal: say --once for one look, or --once --json")
    watch(fetch, interval)
    return 0


def _typed(said: object) -> Overview:
    try:
        return msgspec.convert(said, Overview)
    except msgspec.ValidationError as error:
        raise UserMistake(
            f"the server is of another release, whose overview is not known here: {error}"
        ) from None


def _interval(text: str) -> float:
    every = seconds_of(text, "--every")
    if not SHORTEST <= every <= LONGEST:
        raise UserMistake(f"--every takes {SHORTEST:g} s to {LONGEST:g} s, not {text!r}")
    return every
