"""Who asks, whatever the version of HTTP: what the application needs of a connection, or of one stream on it."""

from collections.abc import Callable
from typing import Protocol

from penstock.edge.answer import Answer
from penstock.ports import Leaving
from penstock.types import Reply

# Makes the answer from a reply, be it an output or a failure; given the time.
Render = Callable[[Reply, float], Answer]


class Caller(Protocol):
    leaving: Leaving | None  # whom to tell when the client goes
    render: Render

    def reply(self, reply: Reply) -> None:
        """Answer with what `render` makes of the reply."""
        ...

    def respond(self, answer: Answer, tenant: str = "") -> None:
        """Send this answer. `tenant`: who has proved that the answer is theirs, and is charged with it if nobody
        reads it."""
        ...


def nothing_asked(reply: Reply, now: float) -> Answer:
    """The `render` of a caller that has not asked anything yet."""
    raise AssertionError("a reply came to a caller that asked nothing")
