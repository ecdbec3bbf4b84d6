"""The ledger in a server's life, and a look into it."""

import asyncio
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from penstock.adapters.ledger.open import LedgerSettings, open_recorder, open_store
from penstock.adapters.ledger.recorder import Recorder
from penstock.adapters.ledger.store import LedgerAway
from penstock.config import Config
from penstock.errors import UserMistake
from penstock.from_config.tiers import tier_names
from penstock.gauges import LedgerGauges
from penstock.ports import Clock


def ledger_of(config: Config, loop: asyncio.AbstractEventLoop, clock: Clock) -> Recorder | None:
    """The ledger; None where the configuration asks for none."""
    ledger = config.ledger
    if not ledger.url:
        return None
    settings = LedgerSettings(ledger.url, Path(ledger.spool), ledger.spool_size, ledger.retention or None)
    return open_recorder(settings, tier_names(config), loop, clock)


def ledger_health(ledger: Recorder | None) -> dict[str, Any]:
    """How the ledger stands, for /internal/health; empty where there is none. A database that is away harms no
    request, so the server's own status stays what it is."""
    if ledger is None:
        return {}
    state = ledger.state
    shown = {name: value for name, value in asdict(state).items() if name != "away"}
    away = {"error": state.away} if state.away else {}
    return {"ledger": {"status": "away" if state.away else "ok", **shown, **away}}


def ledger_gauges(ledger: Recorder | None) -> LedgerGauges | None:
    if ledger is None:
        return None
    state = ledger.state
    rows = {name: getattr(state, name) for name in ("written", "lost", "rejected", "forgotten")}
    return LedgerGauges(rows, state.waiting, state.waiting_bytes, not state.away)


def look_up(
    url: str, tenant: str | None, seconds_ago: float | None, status: str | None, limit: int
) -> list[dict[str, Any]]:
    """The rows of a ledger, the newest first."""
    store = open_store(url, read_only=True)
    since = None if seconds_ago is None else time.time() - seconds_ago
    try:
        return [asdict(entry) for entry in store.query(tenant, since, status, limit)]
    except LedgerAway as away:
        raise UserMistake(f"the ledger cannot be read: {away.message}") from None
    finally:
        store.close()
