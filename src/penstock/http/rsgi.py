"""The part of Granian's RSGI that is used here, as types (Granian ships none for its scope)."""

from collections.abc import AsyncIterator, Callable
from typing import Protocol

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


class Watch(Protocol):
    """Ends when the client has gone."""

    def add_done_callback(self, callback: Callable[[object], None]) -> None: ...

    def cancel(self) -> bool: ...


class Exchange(Protocol):
    """One request and its response."""

    async def __call__(self) -> bytes: ...

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    def client_disconnect(self) -> Watch: ...

    def response_empty(self, status: int, headers: Headers) -> None: ...

    def response_bytes(self, status: int, headers: Headers, body: bytes) -> None: ...
