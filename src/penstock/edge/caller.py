"""Who asks, whatever the version of HTTP: what the application needs of a connection, or of one stream on it."""

from collections.abc import Sequence
from typing import Protocol

from penstock.doors import answers
from penstock.ports import Leaving
from penstock.types import Reply


class Caller(Protocol):
    leaving: Leaving | None  # whom to tell when the client goes
    render: answers.Render

    def reply(self, reply: Reply) -> None: ...

    def respond(self, status: int, headers: Sequence[tuple[str, str]], body: bytes, tenant: str = "") -> None:
        """`tenant`: who has proved that the answer is theirs, and answers for it if nobody reads it."""
        ...
