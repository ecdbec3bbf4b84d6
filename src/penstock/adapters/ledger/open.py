"""Makes a ledger from its settings: the store that its URL names, and the recorder in front of it.

`roles/ledger.py` calls `open_recorder` when a server starts, and `open_store` for `penstock requests` and `penstock
explain`. Only this file decides which database's module is loaded.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from penstock.adapters.ledger.recorder import Recorder
from penstock.adapters.ledger.spool import Spool
from penstock.adapters.ledger.sqlite import SqliteStore
from penstock.adapters.ledger.store import Store
from penstock.adapters.ledger.writer import Writer
from penstock.errors import UserMistake
from penstock.ports import Clock

FORMS = "sqlite:///file, sqlite:////absolute/file or postgresql://user@host/database"


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """`[ledger]` in the configuration. `roles/ledger.py` makes it."""

    url: str
    spool: Path  # the folder in which each process has its own spool
    spool_size: int = 2**30  # bytes
    retention: float | None = None  # seconds; None: kept for ever


def open_store(url: str, *, read_only: bool = False) -> Store:
    """Returns the store of a URL, not connected yet. Raises UserMistake if the URL cannot be a ledger's."""
    scheme, _, rest = url.partition("://")
    if scheme == "sqlite" and rest.startswith("/") and len(rest) > 1:
        return SqliteStore(Path(rest[1:]), read_only=read_only)
    if scheme in ("postgresql", "postgres") and _has_host(url):
        try:
            from penstock.adapters.ledger.postgres import PostgresStore
        except ImportError:
            raise UserMistake(
                "a ledger in PostgreSQL needs asyncpg: pip install 'penstock[postgres]'"
            ) from None
        return PostgresStore(url, read_only=read_only)
    raise UserMistake(f"ledger.url cannot be used: write {FORMS}")


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.netloc) and parts.port != 0
    except ValueError:  # a port that is no number, a bracket without the other
        return False


def open_recorder(
    settings: LedgerSettings,
    tier_names: Sequence[str],
    loop: asyncio.AbstractEventLoop,
    clock: Clock,
    wall: Callable[[], float] = time.time,
) -> Recorder:
    """Returns a recorder, not started yet. Raises UserMistake for wrong settings, but not for a database that is
    away."""
    store = open_store(settings.url)
    spool = Spool(settings.spool, settings.spool_size)
    return Recorder(Writer(spool, store, settings.retention, wall), tier_names, loop, clock, wall)
