"""A connection during its TLS handshake. `Edge` makes it where TLS is on. Afterwards the heir takes over: an
HTTP/1.1 or an HTTP/2 connection, as client and server have agreed.

It counts as a connection from the moment it is accepted, and has the time of a head for its handshake. So sockets
that send nothing are as bounded with TLS as without.

To answer a client's hello, the server makes a signature, which is dear, and hundreds of hellos may come in one turn
of the loop. So an `Opening` stands between the socket and TLS until the handshake is done. The bytes of a client
wait in line, and a turn of the loop passes on as many as it has time for. Nothing more is read from a client that
waits.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, cast

from penstock.edge.bounds import State
from penstock.edge.departed import descriptor_of, has_left
from penstock.edge.unsent import PIECE

if TYPE_CHECKING:
    from penstock.edge.edge import Edge
    from penstock.edge.http1 import Connection
    from penstock.edge.http2 import Http2Connection

MOST_SAID = 16 * 1024  # bytes that are read at once: as long as a record of TLS may be
NOTHING = bytearray()

log = logging.getLogger("penstock.tls")


class Between(asyncio.Protocol):
    """The protocol that TLS tells of a lost connection after the handshake, before TLS knows the heir."""

    __slots__ = ("heir",)

    def __init__(self) -> None:
        self.heir: Connection | Http2Connection | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        if self.heir is not None:
            self.heir.connection_lost(exc)


class Opening(asyncio.BufferedProtocol):
    """One handshake."""

    __slots__ = (
        "_between", "_edge", "_room", "_said", "_shaking", "_tls", "_transport", "since", "state"
    )  # fmt: skip

    def __init__(self, edge: "Edge") -> None:
        self._edge = edge
        self._transport: asyncio.Transport | None = None  # the transport without TLS
        self._tls: asyncio.BufferedProtocol | None = None  # the side of TLS that takes what the socket brings
        self._shaking: Coroutine[Any, None, asyncio.Transport | None] | None = None
        self._between = Between()
        self._room = NOTHING
        self._said = b""  # what the client has said, while it waits in line
        self.state = State.NEW
        self.since = edge.tick

    # ---- the socket --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        edge = self._edge
        edge.connections.add(self)
        # To make a handshake, only to say that there is no room, would cost more than a request does.
        if edge.full:
            self.state = State.CLOSED
            self.abort()

    def get_buffer(self, sizehint: int) -> bytearray:
        self._room = bytearray(MOST_SAID)
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        self._said, self._room = bytes(memoryview(self._room)[:nbytes]), NOTHING
        self._wait()

    def _wait(self) -> None:
        transport = self._open_transport
        if transport is not None:
            transport.pause_reading()
            self._edge.hellos.wait(self)

    def go_on(self) -> bool:
        """Go on with the handshake: its turn has come."""
        transport = self._open_transport
        if transport is not None:
            if self._tls is not None:
                self._hear(self._tls)
            elif has_left(self):
                transport.abort()
            else:
                self._begin(transport)
        return False

    def _read_on(self) -> None:
        transport = self._open_transport
        if transport is not None:
            transport.resume_reading()

    @property
    def _open_transport(self) -> asyncio.Transport | None:
        """The transport of the connection; None if the handshake is over, or the connection."""
        return None if self._transport is None or self._transport.is_closing() else self._transport

    def eof_received(self) -> None:
        if self._tls is not None:
            self._tls.eof_received()

    def pause_writing(self) -> None:
        if self._tls is not None:
            self._tls.pause_writing()

    def resume_writing(self) -> None:
        if self._tls is not None:
            self._tls.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        tls, self._tls = self._tls, None
        if tls is not None:
            tls.connection_lost(exc)  # TLS then ends the handshake, for which `_go_on` waits
        if self._shaking is None:
            self._failed()

    # ---- TLS ---------------------------------------------------------------------------------------------

    def _begin(self, transport: asyncio.Transport) -> None:
        edge = self._edge
        assert edge.tls is not None
        loop = asyncio.get_running_loop()
        self._shaking = loop.start_tls(
            transport, self._between, edge.tls.context, server_side=True,
            # The edge ends a slow handshake before this limit.
            ssl_handshake_timeout=edge.limits.head_seconds * 2,
            ssl_shutdown_timeout=edge.limits.send_seconds,
        )  # fmt: skip
        self._go_on()
        if self._shaking is not None:
            self._tls = cast(asyncio.BufferedProtocol, transport.get_protocol())
            transport.set_protocol(self)
            loop.call_soon(self._wait)  # TLS has something to do first

    def _hear(self, tls: asyncio.BufferedProtocol) -> None:
        said, self._said = memoryview(self._said), b""
        while said:
            room = memoryview(cast(bytearray, tls.get_buffer(len(said))))
            size = min(len(room), len(said))
            room[:size], said = said[:size], said[size:]
            del room
            tls.buffer_updated(size)
        # Not called from here, where it is not known yet whether this was all.
        asyncio.get_running_loop().call_soon(self._read_on)

    def _go_on(self, _: object = None) -> None:
        """Take the handshake from one wait to the next."""
        assert self._shaking is not None
        secured = None
        try:
            self._shaking.send(None).add_done_callback(self._go_on)
            return
        except StopIteration as agreed:
            secured = cast(asyncio.Transport, agreed.value)
        # It is not TLS, no version or certificate fits, it took too long, or the client is gone.
        except OSError as refused:
            log.debug("a TLS handshake failed", extra={"error": str(refused) or type(refused).__name__})
            # The traceback refers to this frame, and the frame to the error: a cycle that any client could make.
            refused.__traceback__ = None
        except Exception as error:  # whatever it is, a connection that is over must not count as one
            log.exception("a TLS handshake failed inside the server")
            error.__traceback__ = None
            self.abort()
        session = None if secured is None else secured.get_extra_info("ssl_object")
        if secured is None or session is None:  # uvloop has no error for a handshake that was aborted
            self._failed()
            return
        bare, tls, self._tls = self._transport, self._tls, None
        self._done()
        speaks_http2 = session.selected_alpn_protocol() == "h2"
        heir = self._between.heir = self._edge.heir_of(speaks_http2=speaks_http2)
        if heir is None:
            secured.abort()
            return
        secured.set_write_buffer_limits(PIECE)  # the same bounds as without TLS
        secured.set_protocol(heir)
        heir.connection_made(secured)
        if bare is not None and tls is not None:
            bare.set_protocol(tls)
            bare.resume_reading()

    # ---- the end -----------------------------------------------------------------------------------------

    def _failed(self) -> None:
        if self.state != State.CLOSED:
            assert self._edge.tls is not None
            self._edge.tls.handshake_failed()
        self._done()

    def _done(self) -> None:
        self._edge.connections.discard(self)
        self._shaking = self._transport = None
        self._said = b""
        self.state = State.CLOSED

    @property
    def descriptor(self) -> int:
        return descriptor_of(self._transport)

    def out_of_time(self) -> None:
        self.abort()

    def retire(self) -> None:
        """Does nothing: the heir's first answer will tell the client."""

    def close(self) -> None:
        """Close the connection, unless the client's bytes wait in line."""
        if not self._said:
            self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
