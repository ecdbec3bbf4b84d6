"""`penstock workers`: lists the workers. It asks a running server's admin plane over HTTP (`ask_admin.py`)."""

import json
from typing import Annotated

import typer

from penstock.cli.ask_admin import USUAL, Admin, ask
from penstock.cli.tables import print_table

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
    for row in rows:
        status = str(row.get("status") or row.get("state", ""))
        row["status"] = f"[{STYLES.get(status, 'red')}]{status}[/]"
    cells = [[_shown(column, row.get(column)) for column in COLUMNS] for row in rows]
    print_table(COLUMNS, cells, otherwise="no worker has joined", wraps="last_error")
    return 0


def _shown(column: str, value: object) -> str:
    if value is None:
        return "-"
    if column == "utilization" and isinstance(value, int | float):
        return f"{value:.0%}"
    if column == "last_seen" and isinstance(value, int | float):
        return f"{value:.1f} s ago"
    return str(value)
