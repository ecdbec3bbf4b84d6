"""`penstock check`: is the configuration valid, what is in force, and where did each value come from?"""

import json
import os
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from penstock.config import Setting, doubts, load


def check(
    path: Annotated[
        Path, typer.Argument(help="The file to check.", envvar="PENSTOCK_CONFIG", show_default=True)
    ] = Path("penstock.toml"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Validate a configuration and print what is in force, with the environment laid over the file."""
    config = load(path, os.environ, {})
    settings, warnings = list(config.explain()), list(doubts(config))
    if as_json:
        rows = [setting._asdict() for setting in settings]
        typer.echo(json.dumps({"file": str(path), "settings": rows, "warnings": warnings}, indent=2))
        return
    console = Console()
    if not console.is_terminal:
        console.width = 160  # nobody's screen: long names stay whole, for grep
    console.print(_table(settings))
    for warning in warnings:
        console.print(Text.assemble(("warning: ", "bold yellow"), warning), soft_wrap=True)
    console.print(Text(f"{path} is valid"), soft_wrap=True)


def _table(settings: Iterable[Setting]) -> Table:
    """Grouped by section; what somebody has set stands first and stands out."""
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
