"""Broker and result bus inside one process: a call, nothing more."""

from collections.abc import Callable, Sequence

from penstock.types import Reply, Request


class MemoryBroker:
    """Once subscribed, publishing is the subscriber's own method: not even a call in between."""

    publish: Callable[[Request], None]
    withdraw: Callable[[Request], None]

    def subscribe(
        self, on_request: Callable[[Request], None], on_withdraw: Callable[[Request], None]
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
