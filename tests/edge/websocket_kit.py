"""A WebSocket without sockets: a client that sends frames, and a talk that echoes or keeps them to itself."""

from dataclasses import dataclass, field
from typing import Any, cast

from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, Side

from edge_kit import Client, EchoApp, edge_with, get
from penstock.edge.answer import Answer
from penstock.edge.body import Whole
from penstock.edge.caller import Caller
from penstock.edge.edge import Edge
from penstock.edge.fields import Headers
from penstock.edge.talk import Wire

WISH = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: k")
GOOD_BYE = b"good-bye"


@dataclass
class EchoTalk:
    """Echoes each message: at once, or when the test says so."""

    at_once: bool = True
    is_introduced: bool = True
    is_ready: bool = True
    tenant: str = ""
    heard: list[bytes] = field(default_factory=list)
    owed: list[bytes] = field(default_factory=list)
    times_left: int = 0

    @property
    def in_flight(self) -> int:
        return len(self.owed)

    def begin(self, wire: Wire) -> None:
        self.wire = wire

    def hear(self, message: bytes, *, text: bool) -> None:
        self.heard.append(message)
        if self.at_once:
            self.wire.send(message)
        else:
            self.owed.append(message)

    def answer(self) -> None:
        self.wire.send(self.owed.pop(0))

    def say_good_bye(self) -> None:
        self.wire.send(GOOD_BYE)

    def left(self) -> None:
        self.times_left += 1
        self.owed.clear()


@dataclass
class TalkingApp(EchoApp):
    """Agrees to every wish to speak WebSocket."""

    talk: EchoTalk = field(default_factory=EchoTalk)

    def handle(self, caller: Caller, method: bytes, url: bytes, headers: Headers, body: Whole) -> None:
        if b"upgrade" in headers:
            caller.switch(Answer(101, [("sec-websocket-accept", "a")], b""), self.talk)
        else:
            super().handle(caller, method, url, headers, body)


class Talker(Client):
    """A client that speaks WebSocket."""

    def __init__(self, edge: Edge) -> None:
        super().__init__(edge)
        self.send(get("/talk", *WISH))
        head, found, _ = self.received.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 "), head
        self._head = len(head) + len(found)

    def frames(self) -> list[Frame]:
        """All that it was sent."""
        protocol = Protocol(Side.CLIENT, max_size=None)
        protocol.receive_data(self.received[self._head :])
        return cast(list[Frame], protocol.events_received())

    def texts(self) -> list[bytes]:
        return [bytes(each.data) for each in self.frames() if each.opcode is Opcode.TEXT]

    def ending(self) -> tuple[int, str] | None:
        """The code and the reason with which it was told that the connection ends."""
        last = self.frames()[-1:]
        if not last or last[0].opcode is not Opcode.CLOSE:
            return None
        data = bytes(last[0].data)
        return int.from_bytes(data[:2], "big"), data[2:].decode()


def frame(opcode: Opcode, data: bytes = b"", *, fin: bool = True, mask: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=mask)


def text(data: bytes = b"hello", *, fin: bool = True) -> bytes:
    return frame(Opcode.TEXT, data, fin=fin)


def more(data: bytes = b"", *, fin: bool = True) -> bytes:
    return frame(Opcode.CONT, data, fin=fin)


PING, PONG = frame(Opcode.PING), frame(Opcode.PONG)


def ending(code: int = 1000, reason: bytes = b"") -> bytes:
    return frame(Opcode.CLOSE, code.to_bytes(2, "big") + reason)


def talking(talk: EchoTalk | None = None, **limits: Any) -> tuple[Talker, EchoTalk, Edge]:
    talk = talk or EchoTalk()
    edge = edge_with(TalkingApp(talk=talk), **limits)
    return Talker(edge), talk, edge
