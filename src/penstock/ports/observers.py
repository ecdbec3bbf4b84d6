"""Observers: they are told what becomes of requests and of batches. Gateways, batchers and workers call them. The
metrics, the log, the ledger, the traces, the record of arrivals and the dead letters implement them."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from penstock.types import Batch, Execution, Failure, GivenUp, Refusal, Reply, WorkerId


class _Watcher:
    """What both kinds of observers have in common."""

    def start(self) -> None:
        """Called when the server begins."""

    async def close(self) -> None:
        """Called after the last request: the observer writes down what it still holds."""


class RequestObserver(_Watcher):
    """Is told what becomes of requests. Its methods are called between two requests: they must be cheap, must not
    wait and must not fail. A method does nothing unless it is overridden.

    Observers are told of ends only. When the steps before happened is in the stamps (`penstock.moments`).
    """

    def refused(self, refusal: Refusal) -> None:
        """A request was never accepted. The gateway or the batcher that refused it calls this."""

    def answered(self, replies: Sequence[Reply], now: float) -> None:
        """These accepted requests have their answers, or ended without one; each is told of once. The gateway
        calls this."""

    def given_up(self, replies: Sequence[GivenUp], now: float) -> None:
        """These requests were executed and failed for good. The batcher calls this, before they are answered."""


class BatchObserver(_Watcher):
    """Is told what becomes of batches. Its calls must be as cheap as those of `RequestObserver`."""

    def handed(self, batch: Batch, now: float) -> None:
        """The batch is about to be handed to a worker, so whatever its worker is to know must be in it when this
        returns (`Batch.traced`). The batcher calls this."""

    def sent(self, batch: Batch, worker: WorkerId) -> None:
        """The batch begins on a worker. The batcher calls this, and a worker in a process of its own as the
        batch begins."""

    def ended(self, batch: Batch, execution: Execution, failure: Failure | None) -> None:
        """The batch has ended at its worker. Whoever called `sent` calls this. `failure` is None if there are
        outputs."""


class Observer(RequestObserver, BatchObserver):
    """Is told what becomes of requests and of batches."""


class Remembered(Protocol):
    """The requests that have ended of late, as the admin plane shows them. `adapters/observe/ended.py` implements
    it."""

    def find(self, request_id: str) -> Mapping[str, Any] | None:
        """Returns what became of the latest request of this id; None if it is not remembered."""
        ...

    def slowest(self, most: int, model: str) -> Sequence[Mapping[str, Any]]:
        """Returns the slowest of the last minutes, the slowest first. `model`: empty for all models."""
        ...

    def describe_reply(self, reply: Reply, ended: float) -> Mapping[str, Any]:
        """Describes the request of this reply, which was given at `ended`, as `find` does."""
        ...
