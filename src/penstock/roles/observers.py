"""Who is told of requests and batches in a process. One more observer is one more line in `Observing`."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from penstock.adapters.observe.ended import Ended
from penstock.adapters.observe.metrics import Metrics
from penstock.adapters.observe.request_log import RequestLog
from penstock.config import Config
from penstock.logs import write_lines
from penstock.ports import BatchObserver, Clock, Observer, RequestObserver
from penstock.roles.from_config import tier_names
from penstock.roles.ledger import ledger_of
from penstock.types import Batch, Execution, Failure, GivenUp, Refusal, Reply, WorkerId

Method = TypeVar("Method")

log = logging.getLogger("penstock")

FAILED = "an observer failed: what it was told of goes on without it"


class Observing:
    """The observers of one process, and those of them that it asks for something."""

    def __init__(
        self,
        config: Config,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        models: Iterable[str],
        *,
        answers: bool,
    ) -> None:
        """`models`: known from the start. `answers`: clients are answered here, as in a gateway."""
        self.metrics = Metrics(models)
        self.ended = Ended(clock, time.time)
        self.ledger = ledger_of(config, loop, clock) if answers else None
        self.request_log = request_log_of(config, loop) if answers else None
        self.told = Observers(
            self.metrics,
            self.ended,
            self.ledger,
            self.request_log,
            # One more observer is one more line here.
        )


def request_log_of(config: Config, loop: asyncio.AbstractEventLoop) -> RequestLog | None:
    """None where none is asked for."""
    share = config.server.log_requests
    return RequestLog(share, tier_names(config), write_lines, loop) if share else None


class Observers(Observer):
    """Several as one. Each is called for what it overrides, and for nothing else. One that fails harms nobody."""

    def __init__(self, *observers: RequestObserver | BatchObserver | None) -> None:
        """None: one that is not asked for."""
        self._all: list[RequestObserver | BatchObserver] = []
        self._refused: list[Callable[[Refusal], None]] = []
        self._answered: list[Callable[[Sequence[Reply], float], None]] = []
        self._given_up: list[Callable[[Sequence[GivenUp], float], None]] = []
        self._sent: list[Callable[[Batch, WorkerId], None]] = []
        self._ended: list[Callable[[Batch, Execution, Failure | None], None]] = []
        for observer in observers:
            if observer is not None:
                self.add(observer)

    def add(self, observer: RequestObserver | BatchObserver) -> None:
        self._all.append(observer)
        kind = type(observer)
        if isinstance(observer, RequestObserver):
            assert issubclass(kind, RequestObserver)
            _add(self._refused, observer.refused, overridden=kind.refused is not RequestObserver.refused)
            _add(self._answered, observer.answered, overridden=kind.answered is not RequestObserver.answered)
            _add(self._given_up, observer.given_up, overridden=kind.given_up is not RequestObserver.given_up)
        if isinstance(observer, BatchObserver):
            assert issubclass(kind, BatchObserver)
            _add(self._sent, observer.sent, overridden=kind.sent is not BatchObserver.sent)
            _add(self._ended, observer.ended, overridden=kind.ended is not BatchObserver.ended)

    def refused(self, refusal: Refusal) -> None:
        for told in self._refused:
            try:
                told(refusal)
            except Exception:
                log.exception(FAILED)

    def answered(self, replies: Sequence[Reply], now: float) -> None:
        for told in self._answered:
            try:
                told(replies, now)
            except Exception:
                log.exception(FAILED)

    def given_up(self, replies: Sequence[GivenUp], now: float) -> None:
        for told in self._given_up:
            try:
                told(replies, now)
            except Exception:
                log.exception(FAILED)

    def sent(self, batch: Batch, worker: WorkerId) -> None:
        for told in self._sent:
            try:
                told(batch, worker)
            except Exception:
                log.exception(FAILED)

    def ended(self, batch: Batch, execution: Execution, failure: Failure | None) -> None:
        for told in self._ended:
            try:
                told(batch, execution, failure)
            except Exception:
                log.exception(FAILED)

    def start(self) -> None:
        for observer in self._all:
            observer.start()

    async def close(self) -> None:
        for observer in self._all:
            await observer.close()


def _add(listeners: list[Method], method: Method, *, overridden: bool) -> None:
    if overridden:
        listeners.append(method)
