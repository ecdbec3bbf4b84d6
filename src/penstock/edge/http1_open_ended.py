"""Answers of HTTP/1.1 whose end is not known when they begin: those that come part by part, and those after which
the connection speaks WebSocket. A part of a connection, as a base class of `http1.Connection`; the planes call it
as `caller.Caller`.
"""

import asyncio
from typing import TYPE_CHECKING

from penstock.edge.answer import Answer
from penstock.edge.bounds import State
from penstock.edge.http1_head import head_of_parts, head_of_switch
from penstock.edge.http1_hearing import Hearing
from penstock.edge.talk import Talk
from penstock.edge.unsent import PIECE
from penstock.errors import UpgradeRequired
from penstock.ports import Leaving

if TYPE_CHECKING:
    from penstock.edge.edge import Edge

MOST_WAITING = 4 * 2**20  # bytes of an answer in parts that its client has not taken: beyond, it is cut off


class OpenEnded(Hearing):
    __slots__ = ("_last", "_taken", "leaving")

    def __init__(self, edge: "Edge") -> None:
        super().__init__(edge)
        self._last = False  # whether the answer that is due is the last on this connection
        self._taken: asyncio.Event | None = None  # set once the client has read, or has left
        self.leaving: Leaving | None = None  # is told when the client leaves

    def begin(self, answer: Answer, tenant: str = "") -> "PartsOfConnection | None":
        """Send the head of an answer that is sent part by part, and ends with the connection."""
        transport = self._transport
        if transport is None:
            return None
        self._last = True
        self._drop()
        transport.write(head_of_parts(answer, self._edge.date))
        return PartsOfConnection(self, tenant)

    def send_part(self, part: bytes) -> None:
        transport = self._transport
        if transport is None:
            return
        if transport.get_write_buffer_size() > MOST_WAITING:
            transport.abort()
        elif part:
            transport.write(part)

    async def parts_taken(self) -> None:
        if self._paused and self._transport is not None:
            self._taken = asyncio.Event()
            await self._taken.wait()

    def end_parts(self, part: bytes, tenant: str) -> None:
        transport = self._transport
        if transport is None:
            return
        self.leaving = None
        if len(part) > PIECE:
            self._send_in_pieces(b"", part, tenant)
        else:
            if part:
                transport.write(part)
            self._sent(tenant)

    def switch(self, answer: Answer, talk: Talk) -> None:
        """Go on as a WebSocket, if nothing has come since the wish for it."""
        transport, edge = self._transport, self._edge
        if transport is None:
            return
        if not self._last or self._size or self._paused:
            raise UpgradeRequired("wait for the answer before anything else is sent")
        from penstock.edge.websocket import (
            WebSocket,
        )  # its library may be missing, and takes a while to import

        transport.write(head_of_switch(answer, edge.date))
        edge.connections.discard(self)
        edge.deaf.discard(self)
        if self._watched >= 0:
            edge.reads.forget(self._watched)
        self._transport = self._later = self.leaving = None
        self.state = State.CLOSED
        heir = WebSocket(edge, talk)
        transport.set_protocol(heir)
        heir.connection_made(transport)

    def _send_in_pieces(self, head: bytes, body: bytes, tenant: str) -> None:
        """Send a large answer, or what is left of it, as it is taken."""
        raise NotImplementedError

    def _sent(self, tenant: str) -> None:
        """Note that the transport has the whole answer."""
        raise NotImplementedError


class PartsOfConnection:
    """Implements `caller.Parts`."""

    __slots__ = ("_connection", "_tenant")

    def __init__(self, connection: OpenEnded, tenant: str) -> None:
        self._connection, self._tenant = connection, tenant

    def send(self, part: bytes) -> None:
        self._connection.send_part(part)

    def end(self, part: bytes) -> None:
        self._connection.end_parts(part, self._tenant)

    async def taken(self) -> None:
        await self._connection.parts_taken()

    def cut(self) -> None:
        self._connection.abort()
