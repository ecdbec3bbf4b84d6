"""Who is told how requests end: the metrics, and where they are asked for the ledger and the log of requests."""

import asyncio
from collections.abc import Sequence

from penstock.adapters.observe.request_log import RequestLog
from penstock.config import Config
from penstock.from_config.tiers import tier_names
from penstock.logs import write_lines
from penstock.ports import Observer
from penstock.types import Batch, Reply


def request_log_of(config: Config, loop: asyncio.AbstractEventLoop) -> RequestLog | None:
    """None where none is asked for."""
    share = config.server.log_requests
    return RequestLog(share, tier_names(config), write_lines, loop) if share else None


def told_all(first: Observer, *others: Observer | None) -> Observer:
    """All that are there as one; where there is one only, nothing stands between."""
    for other in others:
        if other is not None:
            first = Both(first, other)
    return first


class Both:
    """Two observers as one: the metrics and the ledger."""

    def __init__(self, first: Observer, second: Observer) -> None:
        self._first, self._second = first, second

    def replied(self, replies: Sequence[Reply], now: float) -> None:
        self._first.replied(replies, now)
        self._second.replied(replies, now)

    def dispatched(self, batch: Batch) -> None:
        self._first.dispatched(batch)
        self._second.dispatched(batch)

    def refused_at_door(self, model: str, code: str) -> None:
        self._first.refused_at_door(model, code)
        self._second.refused_at_door(model, code)
