"""What the edge hands requests to, and asks about those that are not complete yet."""

from typing import Protocol

from penstock.edge.caller import Caller
from penstock.edge.fields import Headers
from penstock.edge.heads import Head


class App(Protocol):
    def handle(self, caller: Caller, method: bytes, url: bytes, headers: Headers, body: bytes) -> None:
        """A whole request has come; one answer must follow, now or later. Never raises."""
        ...

    def handle_ordinary(self, caller: Caller, head: Head, body: bytes) -> None:
        """Like `handle`, with a head of which only the fields that matter are known."""
        ...

    def who(self, method: bytes, url: bytes, headers: Headers) -> str:
        """Who sends a body that takes a while, by its head: a tenant, or an empty name where that cannot be told
        yet. Raises what the request would be refused with, whatever its body."""
        ...

    def refuse(self, caller: Caller, exc: Exception, url: bytes, headers: Headers) -> None:
        """Answer what cannot be a request, or is too much of one. `url` and `headers`: as much as has been read."""
        ...
