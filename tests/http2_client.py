"""The client's side of HTTP/2, without I/O: what to send, and what was heard on each stream.

client = Http2Client()
number = client.ask("POST", "/v1/inference", b'{"input": "hello"}')
sent(client.outgoing()); client.take(received)
assert client.streams[number].status == 200
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    Event,
    InformationalResponseReceived,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)

JSON = ("content-type", "application/json")


@dataclass
class Heard:
    """What came on one stream."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    informed: list[int] = field(default_factory=list)  # statuses before the last one
    ended: bool = False
    reset: int | None = None  # by the server, and its code

    @property
    def done(self) -> bool:
        return self.ended or self.reset is not None

    def json(self) -> Any:
        return json.loads(self.body)


class Http2Client:
    def __init__(self, *, reads: bool = True) -> None:
        self.machine = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self.machine.initiate_connection()
        self.reads = reads  # or it never opens its windows
        self.streams: dict[int, Heard] = {}
        self.goaways: list[int] = []

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Sequence[tuple[str, str]] = (JSON,),
        *,
        whole: bool = True,
    ) -> int:
        """The number of its stream; without `whole` more of the body is to follow."""
        number = self.machine.get_next_available_stream_id()
        said = [(":method", method), (":scheme", "https"), (":authority", "test"), (":path", path), *headers]
        self.streams[number] = Heard()
        self.machine.send_headers(number, said, end_stream=whole and body is None)
        if body is not None:
            self.send(number, body, last=whole)
        return number

    def send(self, number: int, body: bytes, *, last: bool = True) -> None:
        """All of it, whatever the window is: one that is too small is a mistake of the test."""
        size = self.machine.max_outbound_frame_size
        pieces = [body[at : at + size] for at in range(0, len(body), size)] or [b""]
        for piece in pieces[:-1]:
            self.machine.send_data(number, piece)
        self.machine.send_data(number, pieces[-1], end_stream=last)

    def outgoing(self) -> bytes:
        return self.machine.data_to_send()

    def take(self, data: bytes) -> list[Event]:
        events = self.machine.receive_data(data)
        for event in events:
            self._note(event)
        return events

    def _note(self, event: Event) -> None:
        if isinstance(event, InformationalResponseReceived):
            self.streams[event.stream_id].informed.append(int(next(value for name, value in event.headers)))
        elif isinstance(event, ResponseReceived):
            heard = self.streams[event.stream_id]
            heard.headers = {str(name): str(value) for name, value in event.headers}
            heard.status = int(heard.headers.pop(":status"))
        elif isinstance(event, TrailersReceived):
            self.streams[event.stream_id].headers |= {str(name): str(value) for name, value in event.headers}
        elif isinstance(event, DataReceived):
            self.streams[event.stream_id].body += event.data
            if self.reads:
                self.machine.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, StreamEnded):
            self.streams[event.stream_id].ended = True
        elif isinstance(event, StreamReset):
            self.streams[event.stream_id].reset = int(event.error_code)
        elif isinstance(event, ConnectionTerminated):
            self.goaways.append(int(event.error_code or 0))
