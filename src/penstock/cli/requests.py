"""`penstock requests`: shows what the ledger holds. `roles/ledger.py` reads its database; no running server is
asked, and nothing is written. `explain.py` has the same option for the ledger."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from penstock.cli.options import ConfigFile, seconds_of
from penstock.cli.roles import settings_of
from penstock.cli.tables import print_table
from penstock.errors import UserMistake
from penstock.roles.ledger import look_up
from penstock.units import iso_time

COLUMNS = ("completed", "tenant", "tier", "model", "status", "latency_ms", "request_id", "id")

Ledger = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        show_default="ledger.url of the configuration",
        help="Where it is: sqlite:///file or postgresql://user@host/database.",
    ),
]


def requests(
    ledger: Ledger = None,
    config: ConfigFile = None,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Of this tenant only.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", help='Not longer ago than this, such as "1h".')
    ] = None,
    status: Annotated[
        str | None, typer.Option("--status", help="SUCCESS, or an error code such as DEADLINE_EXCEEDED.")
    ] = None,
    request_id: Annotated[str | None, typer.Option("--id", help="With this X-Request-Id.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, one line a request.")] = False,
) -> int:
    """How requests ended, the newest first: whose, which model, when, and how long they took.

    Example: penstock requests --tenant acme --since 1h
    """
    rows = look_up(
        _url(ledger, config),
        tenant,
        None if since is None else seconds_of(since, "--since"),
        None if status is None else status.upper(),
        limit,
        request_id,
    )
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row))
        return 0
    cells = [[_shown(column, row) for column in COLUMNS] for row in rows]
    print_table(COLUMNS, cells, otherwise="no such request")
    return 0


def _url(ledger: str | None, config: Path | None) -> str:
    url = ledger or settings_of(config, {}).ledger.url
    if not url:
        raise UserMistake(
            "no ledger is kept here: set ledger.url in penstock.toml, or name one with --ledger URL"
        )
    return url


def _shown(column: str, row: dict[str, Any]) -> Text:
    """Returns a cell of the table. It is a Text, so that nothing in a tenant's name is read as markup."""
    value = row[column]
    if column == "completed":
        return Text(iso_time(value).replace("T", " "))
    if column == "latency_ms":
        return Text(f"{value:.1f}")
    if column == "status":
        return Text(value, "green" if value == "SUCCESS" else "red")
    return Text(str(value))
