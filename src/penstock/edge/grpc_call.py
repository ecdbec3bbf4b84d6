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
    """One message of a stream. Implements `caller.Caller`."""

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

    def begin(self, answer: Answer, tenant: str = "") -> Parts | None:
        """Returns None: the answer to a message is one message."""
        return None

    def switch(self, answer: Answer, talk: Talk) -> None:
        """Raises UpgradeRequired: a message is no connection."""
        raise UpgradeRequired("WebSocket is spoken over HTTP/1.1 only")
