"""A caller: a connection of HTTP/1.1 or a stream of HTTP/2 that waits for an answer, as the planes know it. A plane
is handed one with each request, and answers through it. `http1.Connection` and `http2_stream.Stream` implement it.
"""

from collections.abc import Callable
from typing import Protocol

from penstock.edge.answer import Answer
from penstock.edge.talk import Talk
from penstock.ports import Leaving
from penstock.types import Reply

# Makes the answer from a reply, an output or a failure, and the present time.
Render = Callable[[Reply, float], Answer]


class Caller(Protocol):
    """What the planes need of a connection or a stream."""

    leaving: Leaving | None  # is told when the client leaves
    render: Render

    def reply(self, reply: Reply) -> None:
        """Answer with what `render` makes of the reply."""
        ...

    def respond(self, answer: Answer, tenant: str = "") -> None:
        """Send this answer. `tenant`: who has proved that the request was theirs; the answer's bytes count as this
        tenant's while the client does not take them. Empty: nobody has proved it."""
        ...

    def begin(self, answer: Answer, tenant: str = "") -> "Parts | None":
        """Send the head of an answer whose body comes part by part. `leaving` is told if the client leaves
        meanwhile. None: it has left."""
        ...

    def switch(self, answer: Answer, talk: Talk) -> None:
        """Send this answer, and speak WebSocket from now on: `talk` is told of what the client says. Raises
        UpgradeRequired if that is not possible. Does nothing if the client has left."""
        ...


class Parts(Protocol):
    """The body of an answer that comes part by part. What its client does not take waits; a client that lets much
    wait is cut off."""

    def send(self, part: bytes) -> None:
        """Send a part, which must be small."""
        ...

    def end(self, part: bytes) -> None:
        """Send the last part, which may be large, and must not be empty."""
        ...

    async def taken(self) -> None:
        """Wait until the client has taken nearly all parts so far, or has left."""
        ...

    def cut(self) -> None:
        """End the answer before its end, so that the client notices."""
        ...


def nothing_asked(reply: Reply, now: float) -> Answer:
    """Raises AssertionError. It is the `render` of a caller that has not asked anything yet."""
    raise AssertionError("a reply came to a caller that asked nothing")
