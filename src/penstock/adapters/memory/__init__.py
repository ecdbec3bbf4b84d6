"""The adapters in memory. This file connects a gateway to the batchers of its own process, for `penstock serve`:
`roles/embedded.py` makes the result bus and `roles/model.py` a broker for each model. Nothing lies between gateway
and batcher but a call.

The other files of this folder are a bus and records, on which tests run whole installations in one process and in
virtual time. No server uses those. All of them import `ports`, `words`, the vocabulary and the helpers of
`adapters/`.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from penstock.types import Accepted, Reply

Carried = TypeVar("Carried", bound=Accepted)


class MemoryBroker(Generic[Carried]):
    """Implements `ports.Broker`: carries requests to the batcher of the same process. `subscribe` makes the
    subscriber's own methods `publish` and `withdraw`, so that publishing costs no further call."""

    publish: Callable[[Carried], None]
    withdraw: Callable[[Carried], None]

    def subscribe(
        self, on_request: Callable[[Carried], None], on_withdraw: Callable[[Carried], None]
    ) -> None:
        self.publish = on_request
        self.withdraw = on_withdraw


class MemoryResultBus:
    """Implements `ports.ResultBus`: hands the replies of the batchers to the gateway of the same process."""

    def __init__(self) -> None:
        self._on_replies: Callable[[Sequence[Reply]], None] | None = None

    def subscribe(self, on_replies: Callable[[Sequence[Reply]], None]) -> None:
        self._on_replies = on_replies

    def deliver(self, replies: Sequence[Reply]) -> None:
        assert self._on_replies is not None, "subscribe first"
        self._on_replies(replies)
