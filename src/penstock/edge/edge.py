"""All connections of one plane: their number, their time limits, their end. `roles/data_plane.py` and
`server/admin_plane.py` make an `Edge` each, and `server/listen.py` hands it the connections.

There is one timer for all connections. A connection notes the tick at which its state began, which costs next to
nothing. Each tick ends the connections that have been in their state for too long; only states in which a client
could stay for ever have a limit.

A server that stops says so with each answer. Connections without a request are closed last, because a request may
be on its way there.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from typing import TYPE_CHECKING, Protocol

from penstock.edge.app import App
from penstock.edge.bounds import REFUSED_AT_ONCE, State
from penstock.edge.departed import Deaf, those_who_left, those_with_words
from penstock.edge.held import Crowd
from penstock.edge.http1 import Connection
from penstock.edge.lobby import Lobby
from penstock.edge.reads import Reads
from penstock.edge.tls import Tls

if TYPE_CHECKING:
    from penstock.edge.http2 import Http2Connection

SILENT = (State.NEW, State.IDLE, State.QUIET, State.LINGERING)  # the states of connections without a request
AT_ONCE = 16  # connections that are ended in one turn of the loop

log = logging.getLogger("penstock.edge")


@dataclass(frozen=True, slots=True)
class EdgeLimits:
    """What clients may send and how long they may take. The configuration says most of it."""

    max_body: int = 2**20
    max_connections: int = 65536
    # For the request line and headers, counted from the first byte or from the connect.
    head_seconds: float = 5.0
    body_seconds: float = 5.0
    idle_seconds: float = 75.0  # between two requests on a connection
    send_seconds: float = 30.0  # for a client that does not read its answers
    linger_seconds: float = 2.0  # for a refused client to read why
    # A WebSocket or a stream of gRPC on which nothing is in flight: until its client is pinged, and must answer;
    # and until it ends.
    ping_seconds: float = 20.0
    quiet_seconds: float = 600.0
    max_unfinished: int = 256 * 2**20  # bytes of all requests that have not come in full
    max_unsent: int = 256 * 2**20  # bytes of all answers that clients have not taken


class Counted(Protocol):
    """A connection, a stream or a handshake: each counts as a connection, and has a time limit in most states."""

    state: int
    since: int

    @property
    def descriptor(self) -> int:
        """The file descriptor of its socket; -1 where it has none of its own."""
        ...

    def out_of_time(self) -> None: ...

    def retire(self) -> None:
        """Note that the server is about to stop."""
        ...

    def close(self) -> None: ...

    def abort(self) -> None: ...


class Edge:
    """Makes the connections of one plane, and holds what they share."""

    def __init__(
        self,
        app: App,
        limits: EdgeLimits,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        tls: Tls | None = None,
        *,
        keys: bool = False,
        lobby: Lobby | None = None,
    ) -> None:
        """`keys`: whether clients can prove who they are. `lobby`: what this edge shares with others; None: it has
        one of its own."""
        self.app = app
        self.limits = limits
        self.clock = clock
        self.tls = tls
        self._make: Callable[[Edge], asyncio.BaseProtocol] = Connection
        if tls is not None:  # HTTP/2 takes a while to import
            from penstock.edge.opening import Opening

            self._make = Opening
        self.tick = 0
        self.closing = False  # every answer from now on is the last on its connection
        self.lobby = lobby or Lobby(loop, limits.max_unfinished, limits.max_unsent, keys=keys)
        self.connections = self.lobby.add(set[Counted]())
        self.deaf: set[Deaf] = set()  # connections that are not read from
        self.keys = keys
        self.held, self.unsent = self.lobby.held, self.lobby.unsent
        self.turns, self.sending, self.hellos = self.lobby.turns, self.lobby.sending, self.lobby.hellos
        self.reads = Reads(loop, bare=tls is None, crowded=lambda: self.held.crowded)
        self._crowd = Crowd()
        self._over = False  # whether nobody is let in any more
        self._loop = loop
        shortest = min(limits.head_seconds, limits.body_seconds, limits.idle_seconds)
        self._seconds = min(0.5, max(0.02, shortest / 5))
        in_ticks = {
            State.IDLE: limits.idle_seconds,
            State.NEW: limits.head_seconds,
            State.HEAD: limits.head_seconds,
            State.BODY: limits.body_seconds,
            State.SENDING: limits.send_seconds,
            State.LINGERING: limits.linger_seconds,
            State.QUIET: limits.ping_seconds,
        }
        # Limits are rounded up by a tick, because a state may have begun at the very end of its first tick.
        self._patience = {state: round(seconds / self._seconds) + 1 for state, seconds in in_ticks.items()}
        self.date = ""  # the date as answers' heads give it
        self._timer: asyncio.TimerHandle | None = None
        self._turn()

    def __call__(self) -> asyncio.BaseProtocol:
        return self._make(self)

    def heir_of(self, *, speaks_http2: bool) -> "Connection | Http2Connection | None":
        """Returns what takes over a connection after its TLS handshake; None if it is to end."""
        from penstock.edge.http2 import Http2Connection

        return Http2Connection(self) if speaks_http2 else Connection(self)

    @property
    def full(self) -> bool:
        return self._over or self.lobby.connections > self.limits.max_connections

    @property
    def overfull(self) -> bool:
        """Whether there are too many connections even to refuse one. A refused client takes a descriptor until it
        has read why, and few can be spared."""
        return self._over or self.lobby.connections > self.limits.max_connections + REFUSED_AT_ONCE

    def _turn(self) -> None:
        # Set first, so that nothing below can end the timer.
        self._timer = self._loop.call_later(self._seconds, self._turn)
        self.tick += 1
        self.date = formatdate(usegmt=True)
        self._end_late(
            [
                each
                for each in self.connections
                if each.state < State.BUSY and self.tick - each.since > self._patience[each.state]
            ]
        )
        if self.deaf:
            for gone in those_who_left(self.deaf):
                gone.abort()
        self.held.look()
        self.unsent.look()
        self._crowd.look(len(self.connections))

    def _end_late(self, late: list[Counted]) -> None:
        """End connections that have been in their state for too long. A crowd that came together is ended a few
        at a time."""
        for each in late[:AT_ONCE]:
            if each.state < State.BUSY and self.tick - each.since > self._patience[each.state]:
                try:
                    each.out_of_time()
                except Exception:
                    log.exception("a connection could not be told that its time is over")
                    each.abort()
        if len(late) > AT_ONCE:
            self._loop.call_soon(self._end_late, late[AT_ONCE:])

    def retire(self) -> None:
        """Make every answer from now on the last one on its connection."""
        if not self.closing:
            self.closing = True
            for connection in list(self.connections):
                connection.retire()

    def finish(self) -> None:
        """Close connections without a request, unless one has sent something that is not read yet."""
        self.retire()
        silent = [each for each in self.connections if each.state in SILENT]
        spoke = set(those_with_words(silent))
        for connection in silent:
            if connection not in spoke:
                connection.close()

    def close(self) -> None:
        self._over = True
        if self._timer is not None:
            self._timer.cancel()
        self.reads.close()
        for connection in list(self.connections):
            connection.abort()
