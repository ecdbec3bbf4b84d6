"""Broker and result bus inside one process: a call, nothing more."""

from collections.abc import Callable, Sequence

from penstock.types import Reply, Request


class MemoryBroker:
    def __init__(self) -> None:
        self._on_request: Callable[[Request], None] | None = None
        self._on_withdraw: Callable[[Request], None] | None = None

    def subscribe(
        self, on_request: Callable[[Request], None], on_withdraw: Callable[[Request], None]
    ) -> None:
        self._on_request = on_request
        self._on_withdraw = on_withdraw

    def publish(self, request: Request) -> None:
        assert self._on_request is not None, "subscribe first"
        self._on_request(request)

    def withdraw(self, request: Request) -> None:
        assert self._on_withdraw is not None, "subscribe first"
        self._on_withdraw(request)


class MemoryResultBus:
    def __init__(self) -> None:
        self._on_replies: Callable[[Sequence[Reply]], None] | None = None

    def subscribe(self, on_replies: Callable[[Sequence[Reply]], None]) -> None:
        self._on_replies = on_replies

    def deliver(self, replies: Sequence[Reply]) -> None:
        assert self._on_replies is not None, "subscribe first"
        self._on_replies(replies)
