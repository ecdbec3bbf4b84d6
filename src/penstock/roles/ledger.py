"""Opens the ledger of a server, says for health and metrics how it stands, and reads a ledger for `penstock
requests` and `penstock explain`. `observers.py` puts the opened ledger among the observers; `process.py` asks how
it stands."""

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
    """Returns the recorder, a server's end of the ledger; None if the configuration asks for no ledger."""
    ledger = config.ledger
    if not ledger.url:
        return None
    settings = LedgerSettings(ledger.url, Path(ledger.spool), ledger.spool_size, ledger.retention or None)
    return open_recorder(settings, tier_names(config), loop, clock)


def ledger_health(ledger: Recorder | None) -> dict[str, Any]:
    """Returns how the ledger stands, for /internal/health; empty if there is none. If its database is away, no
    request is harmed, so the server's own status does not change."""
    if ledger is None:
        return {}
    state = ledger.state
    shown = {name: value for name, value in asdict(state).items() if name != "away"}
    away = {"error": state.away} if state.away else {}
    return {"ledger": {"status": "away" if state.away else "ok", **shown, **away}}


def ledger_gauges(ledger: Recorder | None, spool_limit: int) -> LedgerGauges | None:
    """Returns what the metrics show of the ledger; None if there is none. `spool_limit`: bytes that may wait on
    disk."""
    if ledger is None:
        return None
    state = ledger.state
    rows = {name: getattr(state, name) for name in ("written", "lost", "rejected", "forgotten")}
    return LedgerGauges(rows, state.waiting, state.waiting_bytes, spool_limit, not state.away)


def look_up(
    url: str,
    tenant: str | None,
    seconds_ago: float | None,
    status: str | None,
    limit: int,
    request_id: str | None = None,
) -> list[dict[str, Any]]:
    """Returns rows of a ledger, the newest first. None as `tenant`, `status` or `request_id` means any. Raises
    UserMistake."""
    store = open_store(url, read_only=True)
    since = None if seconds_ago is None else time.time() - seconds_ago
    try:
        return [asdict(entry) for entry in store.query(tenant, since, status, limit, request_id)]
    except LedgerAway as away:
        raise UserMistake(f"the ledger cannot be read: {away.message}") from None
    finally:
        store.close()
