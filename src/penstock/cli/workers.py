"""`penstock workers`: lists who runs batches."""

import json
from typing import Annotated

import typer
from rich.table import Table

from penstock.cli.ask_admin import USUAL, Admin, ask, wide_console

COLUMNS = (
    "worker", "model", "status", "utilization", "in_flight", "batches", "restarts", "last_seen", "last_error",
)  # fmt: skip
STYLES = {"healthy": "green", "idle": "green", "busy": "green", "degraded": "yellow", "resting": "yellow"}


def workers(
    admin: Admin = USUAL,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> int:
    """Who runs batches: each worker's state, utilisation, what it has in flight and when it was last heard of.

    Example: penstock workers --admin http://127.0.0.1:9000
    """
    rows = ask(admin, "/internal/workers")
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return 0
    table = Table(box=None, pad_edge=False)
    for column in COLUMNS:
        table.add_column(column.replace("_", " "), no_wrap=column != "last_error")
    for row in rows:
        status = str(row.get("status") or row.get("state", ""))
        shown = {**row, "status": f"[{STYLES.get(status, 'red')}]{status}[/]"}
        table.add_row(*(_shown(column, shown.get(column)) for column in COLUMNS))
    wide_console().print(table if rows else "no worker has joined")
    return 0


def _shown(column: str, value: object) -> str:
    if value is None:
        return "-"
    if column == "utilization" and isinstance(value, int | float):
        return f"{value:.0%}"
    if column == "last_seen" and isinstance(value, int | float):
        return f"{value:.1f} s ago"
    return str(value)
