"""`penstock check`: says whether the configuration is valid, what is set and by what, and whether the targets work.
It reads the configuration as a server would (`config/`), and tries the targets (`roles/targets.py`); it serves
nothing and changes nothing."""

import asyncio
import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.cli.options import ConfigFile
from penstock.config import Setting, doubts, find_file, load
from penstock.errors import UserMistake
from penstock.roles.targets import Found, try_targets


def check(
    path: Annotated[
        Path | None, typer.Argument(help="The file to check.", show_default="penstock.toml")
    ] = None,
    config: ConfigFile = None,
    everything: Annotated[bool, typer.Option("--all", help="Also what is at its default.")] = False,
    no_targets: Annotated[
        bool, typer.Option("--no-targets", help="Load no function and reach no endpoint.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> int:
    """Validate a configuration, say what is set and by what, and whether each target works.

    Each function is imported in a process of its own, and each endpoint is connected to.

    No input is run. PENSTOCK_… variables win over the file, as in a server.

    Examples:

      penstock check

      penstock check production.toml --all --no-targets
    """
    if path is not None and config is not None and path != config:
        raise UserMistake(f"name one file only: {path}, or --config {config}")
    file = find_file(path or config, os.environ) or Path("penstock.toml")
    settings = load(file, os.environ, {})
    rows = [each for each in settings.explain() if everything or not _is_default(each)]
    warnings = list(doubts(settings))
    targets = [] if no_targets else asyncio.run(try_targets(settings))
    broken = [found for found in targets if found.error]
    if as_json:
        said = {
            "file": str(file),
            "settings": [row._asdict() for row in rows],
            "targets": [asdict(found) for found in targets],
            "warnings": warnings,
        }
        typer.echo(json.dumps(said, indent=2))
        return 2 if broken else 0
    console = Console()
    if not console.is_terminal:
        console.width = 160  # long names stay whole where the output is no screen, for grep
    console.print(_table(rows) if rows else "everything is at its default")
    if not everything:
        console.print(Text("all else is at its default (--all shows it)", "dim"))
    for warning in warnings:
        console.print(Text.assemble(("warning: ", "bold yellow"), warning), soft_wrap=True)
    for found in targets:
        console.print(_verdict(found), soft_wrap=True)
    targets_fail = f", but {len(broken)} of {len(targets)} targets cannot be used" if broken else ""
    console.print(Text(f"{file} is valid{targets_fail}"), soft_wrap=True)
    return 2 if broken else 0


def _verdict(found: Found) -> Text:
    if found.error:
        return Text.assemble(("error: ", "bold red"), f"{found.key} is {found.target}: {found.error}")
    return Text.assemble(
        ("works: ", "bold green"), f"{found.key} is {found.target}, in {found.seconds:.1f} s"
    )


def _table(settings: Iterable[Setting]) -> Table:
    """Returns the settings as a table, grouped by section. Settings that are not at their default come first, in
    another colour."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("key", "value", "from"):
        table.add_column(heading, overflow="fold")
    for section, members in groupby(settings, key=_section):
        table.add_row(Text(f"[{section}]", "bold"))
        for setting in sorted(members, key=_is_default):
            name, style = setting.key.removeprefix(section + "."), "dim" if _is_default(setting) else "green"
            value = setting.value or "not set"
            table.add_row(Text(f"  {name}"), Text(value, style), Text(setting.source, style))
    return table


def _section(setting: Setting) -> str:
    return setting.key.rpartition(".")[0]


def _is_default(setting: Setting) -> bool:
    return setting.source == "default"
