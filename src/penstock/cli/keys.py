"""`penstock keys`: creates, lists and revokes API keys. It works on the store itself, which `roles/key_store.py`
opens, and needs no running server."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.text import Text

from penstock.auth.keys import id_of, make_key
from penstock.auth.records import KeyRecord, KeyStore
from penstock.cli.options import ConfigFile
from penstock.cli.roles import need_redis, settings_of
from penstock.cli.tables import print_table
from penstock.config import Config
from penstock.errors import StoreDown, UserMistake
from penstock.units import LIFETIME_HINT, iso_time, parse_lifetime

T = TypeVar("T")

COLUMNS = ("id", "tenant", "tier", "state", "created", "expires", "revoked", "note")

app = typer.Typer(
    help="API keys: create, list or revoke them. A running server follows within 2 seconds.",
    no_args_is_help=True,
)
KeysOption = Annotated[
    Path | None,
    typer.Option(
        "--keys",
        show_default="as penstock.toml says, or penstock-keys.json",
        help="The file they are kept in.",
    ),
]
RedisOption = Annotated[
    str | None,
    typer.Option("--redis", show_default=False, help="Keep them in this Redis, for all gateways, instead."),
]


UrlOption = Annotated[
    str | None,
    typer.Option(
        "--keys-url", show_default=False, help="Keep them in this PostgreSQL, for all gateways, instead."
    ),
]


@app.command()
def create(
    tenant: Annotated[str, typer.Option(help="Whose it is: quotas and results are kept apart by tenant.")],
    tier: Annotated[str, typer.Option(help="One of the tiers in penstock.toml.")],
    expires: Annotated[
        str | None, typer.Option(show_default="never", help="After that long: 12h, 90d, 1y.")
    ] = None,
    note: Annotated[str, typer.Option(help="What it is for, in your words.")] = "",
    keys: KeysOption = None,
    keys_url: UrlOption = None,
    redis: RedisOption = None,
    config: ConfigFile = None,
) -> int:
    """Make a key. It is printed once and can never be shown again: only a hash of it is kept.

    Examples:

      penstock keys create --tenant acme --tier paid --expires 90d

      penstock keys create --tenant acme --tier paid --keys-url postgresql://keys@db.example/penstock
    """
    settings = _settings(redis, config)
    if tier not in settings.tiers.levels:
        raise UserMistake(f"no tier {tier!r}; this configuration has {', '.join(settings.tiers.levels)}")
    key, record = make_key(tenant, tier, time.time(), _lifetime(expires), note)
    _with_store(_where(keys, keys_url, redis, settings), settings, lambda store: store.add(record))
    until = f" until {_day(record.expires)}" if record.expires is not None else ""
    typer.echo(
        f"key {record.id} of {tenant}, tier {tier}, is good{until}. Keep it: it is not shown again.", err=True
    )
    typer.echo(key)
    return 0


@app.command("list")
def list_keys(
    keys: KeysOption = None,
    keys_url: UrlOption = None,
    redis: RedisOption = None,
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> int:
    """List them, the newest first; never the keys themselves.

    Example: penstock keys list --json
    """
    settings = _settings(redis, config)
    records = _with_store(_where(keys, keys_url, redis, settings), settings, lambda store: store.load())
    rows = [_described(record) for record in sorted(records, key=lambda record: -record.created)]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return 0
    cells = [[Text(row[column] or "") for column in COLUMNS] for row in rows]
    print_table(COLUMNS, cells, otherwise="no keys", wraps="note")
    return 0


@app.command()
def revoke(
    key: Annotated[str, typer.Argument(metavar="ID", help="As `penstock keys list` shows it.")],
    keys: KeysOption = None,
    keys_url: UrlOption = None,
    redis: RedisOption = None,
    config: ConfigFile = None,
) -> int:
    """Refuse a key from now on, for good.

    Example: penstock keys revoke VSXaPOsVFAYZ
    """
    key_id, settings = id_of(key), _settings(redis, config)
    where = _where(keys, keys_url, redis, settings)
    record = _with_store(where, settings, lambda store: store.revoke(key_id))
    typer.echo(f"revoked {record.id} of {record.tenant}; servers refuse it within 2 seconds", err=True)
    return 0


def _settings(redis: str | None, config: Path | None) -> Config:
    return settings_of(config, {"redis.url": redis})


def _where(keys: Path | None, url: str | None, redis: str | None, settings: Config) -> Path | str | None:
    """Returns where the keys are: a file, a URL, or None for Redis. If no option says it, that is where `penstock
    serve` would look. A gateway looks in its Redis, unless the configuration has `auth.keys_url`."""
    if sum(each is not None for each in (keys, url, redis)) > 1:
        raise UserMistake("say one of --keys, --keys-url and --redis")
    if redis is not None:
        return None
    return keys or url or settings.auth.keys_url or Path(settings.auth.keys_file)


def _with_store(where: Path | str | None, settings: Config, ask: Callable[[KeyStore], Awaitable[T]]) -> T:
    if where is None:
        need_redis()
    from penstock.roles.key_store import key_store

    async def asked() -> T:
        async with key_store(where, settings) as store:
            return await ask(store)

    try:
        return asyncio.run(asked())
    except StoreDown as error:
        raise UserMistake(error.message) from None


def _lifetime(text: str | None) -> float | None:
    try:
        return None if text is None else parse_lifetime(text)
    except ValueError:
        raise UserMistake(f"--expires is {text!r}: write {LIFETIME_HINT}") from None


def _described(record: KeyRecord) -> dict[str, str | None]:
    return {
        "id": record.id,
        "tenant": record.tenant,
        "tier": record.tier,
        "state": record.state(time.time()),
        "created": _day(record.created),
        "expires": _day(record.expires),
        "revoked": _day(record.revoked),
        "note": record.note,
    }


def _day(when: float | None) -> str | None:
    return None if when is None else iso_time(when, "seconds")
