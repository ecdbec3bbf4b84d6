"""An HTTP/2 client and the edge, joined without sockets."""

from typing import Any

from edge_kit import Client, EchoApp, edge_with
from http2_client import Heard, Http2Client
from penstock.edge.edge import Edge
from penstock.edge.http2 import Http2Connection


class Line(Http2Client):
    """A client and its connection; `talk` lets both say all they have to say."""

    def __init__(
        self, edge: Edge, connection: type[Http2Connection] = Http2Connection, **settings: Any
    ) -> None:
        super().__init__(**settings)
        self.edge = edge
        self.wire = Client(edge, connection)
        self._heard = 0
        self.talk()

    @property
    def closed(self) -> bool:
        return self.wire.closed

    def talk(self) -> None:
        while True:
            said = self.outgoing()
            if said:
                self.wire.send(said)
            for turns in (self.edge.turns, self.edge.sending):
                while turns:
                    turns.take()
            self.wire.connection._flush()  # what it would do at the end of the turn
            heard = self.wire.received[self._heard :]
            self._heard += len(heard)
            if heard:
                self.take(heard)
            elif not said:
                return

    def get(self, path: str, **more: Any) -> int:
        number = self.ask("GET", path, headers=(), **more)
        self.talk()
        return number

    def post(self, path: str, body: bytes, **more: Any) -> int:
        number = self.ask("POST", path, body, **more)
        self.talk()
        return number

    def answer(self, number: int) -> Heard:
        self.talk()
        return self.streams[number]


def line_to(app: EchoApp | None = None, **limits: Any) -> Line:
    return Line(edge_with(app or EchoApp(), **limits))
