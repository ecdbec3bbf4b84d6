"""`penstock dlq`: lists dead letters (requests that spent all their attempts), shows, retries and deletes them. It
asks a running server's admin plane over HTTP (`ask_admin.py`)."""

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import track

from penstock.cli.ask_admin import USUAL, Admin, ask
from penstock.cli.tables import print_table
from penstock.errors import UserMistake

COLUMNS = ("id", "time", "model", "tenant", "attempts", "error", "request_id", "message")
PAGE = 1000  # letters that are asked for at once

app = typer.Typer(
    help="Dead letters: requests that spent all their attempts. List, look at, retry or purge them.",
    no_args_is_help=True,
)
AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]
Letter = Annotated[str, typer.Argument(metavar="ID", help="As `penstock dlq list` shows it.")]


@app.command("list")
def list_letters(
    admin: Admin = USUAL,
    limit: Annotated[int, typer.Option(min=1, max=PAGE, help="How many, the newest first.")] = 50,
    as_json: AsJson = False,
) -> int:
    """List them, the newest first.

    Example: penstock dlq list --limit 10
    """
    letters = ask(admin, f"/internal/dlq?limit={limit}")
    if as_json:
        typer.echo(json.dumps(letters, indent=2))
        return 0
    rows = [[str(letter[column]) for column in COLUMNS] for letter in letters]
    print_table(COLUMNS, rows, otherwise="no dead letters", wraps="message")
    return 0


@app.command()
def show(letter: Letter, admin: Admin = USUAL) -> int:
    """Everything that is known of one, its input included.

    Example: penstock dlq show ID
    """
    typer.echo(json.dumps(ask(admin, f"/internal/dlq/{letter}"), indent=2))
    return 0


@app.command()
def retry(
    letter: Annotated[
        str | None, typer.Argument(metavar="ID", show_default=False, help="As `penstock dlq list` shows it.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All there are.")] = False,
    admin: Admin = USUAL,
) -> int:
    """Send one again, or all; the result can be read at /v1/result/REQUEST_ID.

    Examples:

      penstock dlq retry ID

      penstock dlq retry --all
    """
    if (letter is None) == (not everything):
        raise UserMistake("say which letter to retry: penstock dlq retry ID, or --all")
    if letter is not None:
        task = ask(admin, f"/internal/dlq/{letter}/retry", "POST")["task_id"]
        typer.echo(f"sent again; its result will be at /v1/result/{task}")
        return 0
    letters = _all(admin)
    for each in track(letters, "sending again", disable=not Console().is_terminal):
        ask(admin, f"/internal/dlq/{each['id']}/retry", "POST")
    typer.echo(f"sent again: {len(letters)}")
    return 0


@app.command()
def purge(
    admin: Admin = USUAL,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Without asking.")] = False,
) -> int:
    """Forget all of them.

    Example: penstock dlq purge --yes
    """
    if not yes:
        typer.confirm("forget all dead letters?", abort=True)
    typer.echo(f"forgotten: {ask(admin, '/internal/dlq', 'DELETE')['purged']}")
    return 0


def _all(admin: str) -> list[dict[str, Any]]:
    """Returns all dead letters, page by page."""
    letters: list[dict[str, Any]] = []
    before = ""
    while page := ask(admin, f"/internal/dlq?limit={PAGE}{before}"):
        letters += page
        before = f"&before={page[-1]['id']}"
    return letters
