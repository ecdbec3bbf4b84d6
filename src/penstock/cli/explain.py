"""`penstock explain ID`: what happened to one request, and what more time would have changed. It collects the facts
from a server's admin plane, its dead letters and the ledger, or from a file of traces; `explanation/` makes
sentences of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urlencode

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from penstock.cli.ask_admin import USUAL, Admin, NoAdminPlane, find
from penstock.cli.options import ConfigFile, seconds_of
from penstock.cli.requests import Ledger
from penstock.cli.roles import settings_of
from penstock.cli.trace_file import TraceFile
from penstock.errors import UserMistake
from penstock.explanation.facts import Facts, of_admin_plane, of_dead_letter, of_ledger
from penstock.explanation.from_trace import of_trace
from penstock.explanation.more_time import more_time
from penstock.explanation.story import Step, headline, story
from penstock.roles.ledger import look_up
from penstock.units import iso_time

PAGE = 1000  # dead letters that are asked for at once

NOT_FOUND = (
    "nobody knows a request {!r}. A server knows those that wait, that ended or were refused within the last 10"
    " minutes (of a busy one not all), dead letters, and tasks (--tenant NAME, if it is a tenant's); a ledger knows"
    " all that ended: ledger.url in penstock.toml, or --ledger URL"
)

NOT_IN_FILE = (
    "no span with penstock.request_id {!r} is in {}: the request was not traced (tracing.ratio), or its spans are"
    " in another file"
)


def explain(
    request_id: Annotated[
        str, typer.Argument(metavar="ID", help="Its X-Request-Id, as the client was told it.")
    ],
    admin: Admin = USUAL,
    tenant: Annotated[str, typer.Option("--tenant", help="Whose task it is, over Redis.")] = "",
    more: Annotated[
        str, typer.Option("--more", help="What if its time limit had been longer by this?")
    ] = "100ms",
    ledger: Ledger = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            metavar="FILE",
            show_default=False,
            help="Ask no server: its spans are in this file, OTLP in JSON from a collector.",
        ),
    ] = None,
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> int:
    """What happened to one request: what it waited for, why its batch went when it did, how long each step took.

    Over Redis ask any gateway.

    Example: penstock explain b7d04b76b75d1 --more 250ms

    Long afterwards: penstock explain b7d04b76b75d1 --trace traces.jsonl
    """
    longer = seconds_of(more, "--more") * 1e3
    if trace is not None:
        facts, source = _look_into(trace, request_id)
    else:
        facts, source = _look_everywhere(request_id, admin, tenant, lambda: _ledger_url(ledger, config))
    if as_json:
        said = {
            "source": source,
            "facts": msgspec.to_builtins(facts),
            "steps": [step._asdict() for step in story(facts)],
            "more_ms": longer,
            "with_more": more_time(facts, longer),
        }
        typer.echo(json.dumps(said, indent=2))
        return 0
    console = Console()
    if not console.is_terminal:
        console.width = 160
    console.print(Text(headline(facts), "bold"), soft_wrap=True)
    console.print(Text(_when(facts, source), "dim"), soft_wrap=True)
    for step in story(facts):
        console.print(_line(step), soft_wrap=True)
    console.print(Text(more_time(facts, longer)), soft_wrap=True)
    return 0


def _line(step: Step) -> Text:
    after = "" if step.after_ms is None else f"{step.after_ms:,.1f} ms"
    return Text.assemble((f"{after:>14}  ", "cyan"), step.text)


def _when(facts: Facts, source: str) -> str:
    known = [
        f"arrived {facts.arrived}" if facts.arrived else "",
        f"ended {facts.ended}" if facts.ended else "",
    ]
    known.append(f"at {facts.gateway}" if facts.gateway else "")
    return ", ".join([*filter(None, known), f"as {source} tells"])


def _look_into(file: Path, request_id: str) -> tuple[Facts, str]:
    """Returns what a file of traces tells of a request, and the file's name. Raises UserMistake."""
    facts = of_trace(request_id, TraceFile(file).holding)
    if facts is None:
        raise UserMistake(NOT_IN_FILE.format(request_id, file))
    return facts, str(file)


def _look_everywhere(
    request_id: str, admin: str, tenant: str, ledger_url: Callable[[], str]
) -> tuple[Facts, str]:
    """Returns what is known of a request, and who knows it. Raises UserMistake if nobody does."""
    away: NoAdminPlane | None = None
    try:
        found = _ask_server(request_id, admin, tenant)
        if found is not None:
            return found
    except NoAdminPlane as error:
        away = error
    url = ledger_url()
    if url:
        rows = look_up(url, tenant or None, None, None, 1, request_id)
        if rows:
            return _of_row(rows[0]), "the ledger"
    if away is not None:
        raise away
    raise UserMistake(NOT_FOUND.format(request_id))


def _ask_server(request_id: str, admin: str, tenant: str) -> tuple[Facts, str] | None:
    query = f"?{urlencode({'tenant': tenant})}" if tenant else ""
    said = find(admin, f"/internal/requests/{quote(request_id, safe='')}{query}")
    try:
        if said is not None:
            return of_admin_plane(said), "the server"
        letter = _letter_of(request_id, admin)
        return None if letter is None else (of_dead_letter(letter), f"dead letter {letter['id']}")
    except msgspec.ValidationError as error:
        raise UserMistake(f"{admin} tells of requests in another way than this penstock: {error}") from None


def _letter_of(request_id: str, admin: str) -> dict[str, Any] | None:
    """Returns the newest dead letter of this request."""
    before = ""
    while page := find(admin, f"/internal/dlq?limit={PAGE}{before}"):
        for letter in page:
            if letter["request_id"] == request_id:
                return find(admin, f"/internal/dlq/{letter['id']}")
        before = f"&before={page[-1]['id']}"
    return None


def _ledger_url(ledger: str | None, config: Path | None) -> str:
    """Returns where the ledger is; empty if no ledger is kept."""
    return ledger or settings_of(config, {}).ledger.url


def _of_row(row: dict[str, Any]) -> Facts:
    return of_ledger(
        row["request_id"], row["model"], row["tenant"], row["tier"], row["status"],
        iso_time(row["created"]), iso_time(row["completed"]), row["latency_ms"],
    )  # fmt: skip
