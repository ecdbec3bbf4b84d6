"""Keep-alive HTTP/1.1 connections, opened on demand and bounded in number; one request at a time on each. `load.py`
makes a `Pool` and sends each request of its plan through it.

The connections that the schedule's busiest moment will need are opened before it starts. A request takes an idle
connection, or waits while one is opened. If as many are open as may be, it waits until one is free; that wait
counts as the generator's own lateness.
"""

import asyncio
import ssl
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from penstock.bench.outcomes import Outcomes
from penstock.client.exchange import Exchange

CONNECTING_AT_ONCE = 256  # more would overrun the server's accept backlog and cost a second each
CONNECT_TIMEOUT = 5.0  # seconds


@dataclass(slots=True, frozen=True)
class Address:
    """Where connections go."""

    host: str  # resolved already, because to look up a name for each connection would cost a thread each
    port: int
    tls: ssl.SSLContext | None = None
    name: str | None = None  # the name that the certificate must have


class Connection(Exchange):
    """One connection, and the request on it."""

    def __init__(self, pool: "Pool") -> None:
        super().__init__()
        self._pool = pool
        self.index = -1  # of the request in flight; -1 when idle

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._pool.opened(self)

    def send(self, index: int, request: bytes) -> None:
        self.index = index
        self.write(request)

    def answered(self, status: int, body: bytes, keep: bool) -> None:
        if self.index >= 0:
            self._pool.answered(self, status, body, keep)

    def lost(self) -> None:
        self._pool.lost(self)


class Pool:
    """All connections of a run."""

    def __init__(
        self, address: Address, most: int, request: Callable[[int], bytes], outcomes: Outcomes
    ) -> None:
        """`most`: so many connections may be open at once. `request`: returns the bytes of a request, by its index.
        `outcomes`: what is told of each request."""
        self._address = address
        self._most = most
        self._request = request
        self._outcomes = outcomes
        self.start = 0.0  # of the schedule, in monotonic seconds
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[int] = deque()  # requests that wait for a connection
        # Idle connections. The last used is used first, so that few connections do the work.
        self._idle: dict[Connection, None] = {}
        self._open: set[Connection] = set()
        self._connecting: set[asyncio.Task[None]] = set()
        self._ahead = 0  # how many connections to open before they are needed
        self._again: set[int] = set()  # requests sent a second time; there is no third time
        self._closing = False  # whether no connection is opened any more
        self.on_settled: Callable[[], None] | None = None

    async def prepare(self, count: int) -> None:
        """Opens so many connections before the schedule starts; fewer if the server refuses more."""
        self._ahead = min(count, self._most)
        self._grow()
        while self._connecting:
            await asyncio.wait(self._connecting)
        self._ahead = 0

    def submit(self, index: int) -> None:
        """Sends a request now, or as soon as there is a connection for it."""
        while self._idle:
            connection, _ = self._idle.popitem()
            if not connection.transport.is_closing():
                self._send(connection, index)
                return
        self._waiting.append(index)
        self._grow()

    def opened(self, connection: Connection) -> None:
        """Called by a connection that is open now."""
        self._open.add(connection)
        self._next(connection)

    def answered(self, connection: Connection, status: int, body: bytes, keep: bool) -> None:
        """Called by a connection with the answer to its request."""
        self._outcomes.answered(connection.index, time.monotonic() - self.start, status, body)
        connection.index = -1
        connection.rested = True
        if keep:
            self._next(connection)
        else:
            connection.transport.close()
        if self.on_settled is not None:
            self.on_settled()

    def lost(self, connection: Connection) -> None:
        """Called by a connection that has ended."""
        self._open.discard(connection)
        self._idle.pop(connection, None)
        if connection.index >= 0 and not self._closing:
            if connection.rested and not connection.heard and connection.index not in self._again:
                # A server may close an idle connection just as a request goes out: the request is sent again.
                self._again.add(connection.index)
                self._waiting.appendleft(connection.index)
            else:
                self._fail(connection.index, "DISCONNECTED")
        self._grow()

    async def close(self, *, unanswered: str) -> None:
        """Close all connections. A request on one counts as lost, with the code `unanswered`; a request that waits
        for one, with the code NOT_SENT."""
        self._closing = True
        for index in self._waiting:
            self._fail(index, "NOT_SENT")
        self._waiting.clear()
        for connection in list(self._open):
            if connection.index >= 0:
                self._fail(connection.index, unanswered)
            connection.transport.abort()
        for task in self._connecting:
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)

    def _next(self, connection: Connection) -> None:
        if self._waiting:
            self._send(connection, self._waiting.popleft())
        else:
            connection.rested = True
            self._idle[connection] = None

    def _send(self, connection: Connection, index: int) -> None:
        self._outcomes.went(index, time.monotonic() - self.start)
        connection.send(index, self._request(index))

    def _fail(self, index: int, code: str) -> None:
        self._outcomes.lost(index, time.monotonic() - self.start, code)
        if self.on_settled is not None:
            self.on_settled()

    def _grow(self) -> None:
        """Opens as many connections as are wanted and may be."""
        wanted = max(len(self._waiting), self._ahead - len(self._open))
        room = min(self._most - len(self._open), CONNECTING_AT_ONCE, wanted)
        while len(self._connecting) < room and not self._closing:
            task = self._loop.create_task(self._connect())
            self._connecting.add(task)
            task.add_done_callback(self._connected)

    async def _connect(self) -> None:
        at = self._address
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                await self._loop.create_connection(
                    lambda: Connection(self), at.host, at.port, ssl=at.tls, server_hostname=at.name
                )
        except OSError as error:  # TimeoutError is one, and so is what TLS raises
            self._ahead = 0
            if self._waiting:
                code = "CONNECT_TIMEOUT" if isinstance(error, TimeoutError) else "CONNECT"
                self._fail(self._waiting.popleft(), code)

    def _connected(self, task: asyncio.Task[None]) -> None:
        self._connecting.discard(task)
        self._grow()
