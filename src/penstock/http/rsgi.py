"""The part of Granian's RSGI that is used here, as types (Granian ships none for its scope)."""

from asyncio import Future
from collections.abc import AsyncIterator
from typing import Protocol

from penstock.ports import Watch

Headers = list[tuple[str, str]]


class RequestHeaders(Protocol):
    def get(self, key: str, default: str | None = None) -> str | None: ...

    def __contains__(self, key: str) -> bool: ...


class Scope(Protocol):
    proto: str
    method: str
    path: str
    query_string: str

    @property
    def headers(self) -> RequestHeaders: ...


class Exchange(Protocol):
    """One request and its response."""

    def __call__(self) -> "Future[bytes]":
        """The whole body; an awaitable that looks like a future."""
        ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    def client_disconnect(self) -> Watch: ...

    def response_empty(self, status: int, headers: Headers) -> None: ...

    def response_bytes(self, status: int, headers: Headers, body: bytes) -> None: ...
