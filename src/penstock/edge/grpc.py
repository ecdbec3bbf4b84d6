"""gRPC on a port of its own: HTTP/2, with or without TLS, whose streams are calls (`grpc_stream.py`).
`roles/grpc.py` makes a `GrpcEdge`, and `server/listen.py` hands it the connections."""

import asyncio
from collections.abc import Collection
from typing import Any, cast

from penstock.edge.edge import Edge
from penstock.edge.grpc_stream import GrpcStream
from penstock.edge.http1 import Connection
from penstock.edge.http2 import Http2Connection
from penstock.edge.http2_library import DataReceived
from penstock.edge.http2_sending import lighter_machine
from penstock.edge.http2_stream import Stream
from penstock.edge.unsent import PIECE


class GrpcConnection(Http2Connection):
    """One client's connection. Without TLS nothing is agreed before: the client just begins."""

    stream = GrpcStream
    machine = lighter_machine()

    def __init__(self, edge: Edge) -> None:
        super().__init__(edge)
        self.heard_at = edge.tick  # when the client last said anything
        self._pinged_at = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self.edge.full:
            cast(asyncio.Transport, transport).abort()
            self._ended = True
            return
        cast(asyncio.Transport, transport).set_write_buffer_limits(PIECE)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self.heard_at = self.edge.tick
        super().data_received(data)

    def ping(self) -> None:
        """Ask the client for a sign of life, once for all its streams that want one."""
        if not self._ended and self._pinged_at != self.edge.tick:
            self._pinged_at = self.edge.tick
            self._machine.ping(bytes(8))
            self._flush_soon()

    def _acknowledge(self, event: DataReceived, stream: Stream | None) -> None:
        if stream is None or not cast(GrpcStream, stream).owe(event.flow_controlled_length):
            super()._acknowledge(event, stream)
        else:  # the connection's window opens at once, so that no stream holds up another
            self._machine.open_connection(event.flow_controlled_length)

    def open_window(self, stream: GrpcStream, size: int) -> None:
        """Open the window of a stream of messages again by so many bytes, which it has taken."""
        if not self._ended:
            self._machine.open_stream(size, stream.id)
            self._flush_soon()

    @property
    def lasting(self) -> int:
        """How many calls of the connection last."""
        return sum(cast(GrpcStream, stream).lasts for stream in self._streams.values())

    def earn(self, messages: int) -> None:
        """Note that so many messages go out: a client may open its windows again with each that it reads."""
        self._frames.earn(messages)


class GrpcEdge(Edge):
    """All connections of gRPC."""

    def __init__(
        self, *args: Any, methods: Collection[bytes] = (), streams: Collection[bytes] = (), **more: Any
    ) -> None:
        """`methods`: the paths of all methods. `streams`: those of the methods that take several messages."""
        super().__init__(*args, **more)
        self.methods = frozenset(methods)
        self.streams = frozenset(streams)
        if self.tls is None:
            self._make = GrpcConnection

    def heir_of(self, *, speaks_http2: bool) -> Connection | Http2Connection | None:
        return GrpcConnection(self) if speaks_http2 else None
