"""One message of a stream of gRPC, as the planes know it. `grpc_stream.GrpcStream` makes one for each message, and
sends its answer."""

from typing import TYPE_CHECKING

from penstock.edge.answer import Answer
from penstock.edge.bounds import State
from penstock.edge.caller import Parts, Render, nothing_asked
from penstock.edge.talk import Talk
from penstock.errors import UpgradeRequired
from penstock.ports import Leaving
from penstock.types import Reply

if TYPE_CHECKING:
    from penstock.edge.grpc_stream import GrpcStream


class GrpcCall:
    """One message of a stream. Implements `caller.Caller`, and `caller.Parts` of itself: each part is a message."""

    __slots__ = ("_stream", "leaving", "render")

    def __init__(self, stream: "GrpcStream") -> None:
        self._stream = stream
        self.leaving: Leaving | None = None
        self.render: Render = nothing_asked

    def reply(self, reply: Reply) -> None:
        stream = self._stream
        if stream.state != State.CLOSED:
            self.respond(self.render(reply, stream.now()), reply.request.tenant)

    def respond(self, answer: Answer, tenant: str = "") -> None:
        self.leaving = None
        self._stream.answer_to(self, answer, tenant)

    def begin(self, answer: Answer, tenant: str = "") -> "Parts | None":
        """Answer with any number of messages, and end with the status that all is well. Raises PenstockError if
        that cannot be."""
        return self if self._stream.let_last(self) else None

    def send(self, part: bytes) -> None:
        self._stream.say(self, part)

    def end(self, part: bytes) -> None:
        self.leaving = None
        if part:
            self._stream.say(self, part)
        self._stream.over_with(self)

    async def taken(self) -> None:
        await self._stream.taken()

    def cut(self) -> None:
        self._stream.abort()

    def switch(self, answer: Answer, talk: Talk) -> None:
        """Raises UpgradeRequired: a message is no connection."""
        raise UpgradeRequired("WebSocket is spoken over HTTP/1.1 only")
