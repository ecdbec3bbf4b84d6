"""A connection before it says anything: the TLS handshake, and then whoever speaks what was agreed on.

It counts as a connection from the moment it is accepted, and has the time of a head for its handshake: sockets that
say nothing are as bounded with TLS as without.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, cast

from penstock.edge.bounds import State
from penstock.edge.departed import descriptor_of
from penstock.edge.http1 import Connection
from penstock.edge.http2 import Http2Connection
from penstock.edge.unsent import PIECE

if TYPE_CHECKING:
    from penstock.edge.edge import Edge

log = logging.getLogger("penstock.tls")


class Opening(asyncio.Protocol):
    __slots__ = ("_edge", "_heir", "_shaking", "_transport", "since", "state")

    def __init__(self, edge: "Edge") -> None:
        self._edge = edge
        self._transport: asyncio.Transport | None = None  # the bare one
        self._shaking: Coroutine[Any, None, asyncio.Transport | None] | None = None
        self._heir: Connection | Http2Connection | None = None
        self.state = State.NEW
        self.since = edge.tick

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        edge = self._edge
        edge.connections.add(self)
        if edge.full:  # a handshake, just to be told so, would cost more than all the rest
            self.abort()
            return
        assert edge.tls is not None
        self._shaking = asyncio.get_running_loop().start_tls(
            self._transport, self, edge.tls.context, server_side=True,
            ssl_handshake_timeout=edge.limits.head_seconds * 2,  # the edge ends it before
            ssl_shutdown_timeout=edge.limits.send_seconds,
        )  # fmt: skip
        self._go_on()

    def _go_on(self, _: object = None) -> None:
        """Takes the handshake from one wait to the next.

        A task would take the first step a turn later, when the client's first words may have come and been lost.
        """
        assert self._shaking is not None
        transport = None
        try:
            self._shaking.send(None).add_done_callback(self._go_on)
            return
        except StopIteration as agreed:
            transport = cast(asyncio.Transport, agreed.value)
        except OSError as refused:  # not TLS, no version or certificate that will do, out of time, or gone
            log.debug("a TLS handshake failed", extra={"error": str(refused) or type(refused).__name__})
            # It leads here, and from here to itself: garbage that anybody could heap up.
            refused.__traceback__ = None
        session = None if transport is None else transport.get_extra_info("ssl_object")
        self._done()
        if transport is None or session is None:  # uvloop has no error for one that was aborted
            assert self._edge.tls is not None
            self._edge.tls.failed_handshakes += 1
            return
        speaks_http2 = session.selected_alpn_protocol() == "h2"
        self._heir = Http2Connection(self._edge) if speaks_http2 else Connection(self._edge)
        transport.set_write_buffer_limits(PIECE)  # as without TLS
        transport.set_protocol(self._heir)
        self._heir.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Before a handshake; or between the handshake and its heir."""
        self._done()
        if self._heir is not None:
            self._heir.connection_lost(exc)

    def _done(self) -> None:
        self._edge.connections.discard(self)
        self._shaking = self._transport = None
        self.state = State.CLOSED

    @property
    def descriptor(self) -> int:
        return descriptor_of(self._transport)

    def out_of_time(self) -> None:
        self.abort()

    def retire(self) -> None:
        """Whoever speaks here will be told with the first answer."""

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
