"""Several observers as one: whoever reports (gateways, pumps, the docks of workers) calls a single observer, which
tells all that want to hear it. Every role has one `Observers`, made in `roles/observers.py`; a batcher over a bus
puts one around that, to add its own observer (`cluster/batcher.py`)."""

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar

from penstock.ports import BatchObserver, Observer, RequestObserver
from penstock.types import Batch, Execution, Failure, GivenUp, Refusal, Reply, WorkerId

Method = TypeVar("Method")

log = logging.getLogger("penstock")

FAILED = "an observer failed: what it was told of goes on without it"  # the log's message


class Observers(Observer):
    """Several observers as one. Each is called only for the methods that it overrides. If one fails, the others are
    called all the same."""

    def __init__(self, *observers: RequestObserver | BatchObserver | None) -> None:
        """`observers`: None stands for one that is not wanted."""
        self._all: list[RequestObserver | BatchObserver] = []
        self._refused: list[Callable[[Refusal], None]] = []
        self._answered: list[Callable[[Sequence[Reply], float], None]] = []
        self._given_up: list[Callable[[Sequence[GivenUp], float], None]] = []
        self._handed: list[Callable[[Batch, float], None]] = []
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
            _add(self._handed, observer.handed, overridden=kind.handed is not BatchObserver.handed)
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

    def handed(self, batch: Batch, now: float) -> None:
        for told in self._handed:
            try:
                told(batch, now)
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
    """Add a method to those that are called, if its class does more than inherit it."""
    if overridden:
        listeners.append(method)
