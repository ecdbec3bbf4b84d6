"""The adapters in memory. The broker and result bus here connect a gateway to the batchers of its own process: a
call, nothing more. The other files are the bus and the records that tests run whole installations on."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from penstock.types import Accepted, Reply

Carried = TypeVar("Carried", bound=Accepted)


class MemoryBroker(Generic[Carried]):
    """Carries requests to the batcher of the same process. Once subscribed, publishing is the subscriber's own
    method: not even a call in between."""

    publish: Callable[[Carried], None]
    withdraw: Callable[[Carried], None]

    def subscribe(
        self, on_request: Callable[[Carried], None], on_withdraw: Callable[[Carried], None]
    ) -> None:
        self.publish = on_request
        self.withdraw = on_withdraw


class MemoryResultBus:
    def __init__(self) -> None:
        self._on_replies: Callable[[Sequence[Reply]], None] | None = None

    def subscribe(self, on_replies: Callable[[Sequence[Reply]], None]) -> None:
        self._on_replies = on_replies

    def deliver(self, replies: Sequence[Reply]) -> None:
        assert self._on_replies is not None, "subscribe first"
        self._on_replies(replies)
