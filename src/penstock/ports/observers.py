"""Those who are told what becomes of requests and of batches."""

from collections.abc import Sequence

from penstock.types import Batch, Execution, Failure, GivenUp, Refusal, Reply, WorkerId


class _Watcher:
    def start(self) -> None:
        """Called when the server begins."""

    async def close(self) -> None:
        """Called after the last request: what is kept is written down now."""


class RequestObserver(_Watcher):
    """Is told what becomes of requests. Its calls stand between two requests: they must be cheap, must not wait and
    must not fail. A method does nothing unless it is overridden.

    When each thing happened stands in the stamps (`penstock.moments`): nobody is told of each moment as it
    passes.
    """

    def refused(self, refusal: Refusal) -> None:
        """A request was never accepted. Whoever refused it calls this: the gateway or the batcher."""

    def answered(self, replies: Sequence[Reply], now: float) -> None:
        """These accepted requests have their answers, or ended without one; each is told of once. The gateway
        calls this."""

    def given_up(self, replies: Sequence[GivenUp], now: float) -> None:
        """These requests were executed and failed for good. The batcher calls this, before they are answered."""


class BatchObserver(_Watcher):
    """Is told what becomes of batches. Its calls must be as cheap as those of `RequestObserver`."""

    def sent(self, batch: Batch, worker: WorkerId) -> None:
        """The batch begins on a worker. The batcher calls this, and a worker in a process of its own as the
        batch begins."""

    def ended(self, batch: Batch, execution: Execution, failure: Failure | None) -> None:
        """The worker is done with the batch, or has given up. Called by whoever called `sent`. `failure` is None
        if there are outputs."""


class Observer(RequestObserver, BatchObserver):
    """Is told what becomes of requests and of batches."""
