"""The client's connections to one server: kept alive, opened when needed, bounded in number. `HttpRoad` sends each
try of a request through them (`road.py`).

A request takes the connection that was used last, opens another one, or waits until one is free if there are as
many as there may be. What goes wrong becomes an error of `errors.py`; `retries.py` decides whether to try again.
"""

import asyncio
import ssl
from collections import deque
from typing import NamedTuple

from penstock.client.errors import Failed, Late, NoContact
from penstock.client.exchange import Exchange

CONNECT_SECONDS = 5.0  # seconds to open a connection
CLOSE_SECONDS = 2.0  # seconds for connections to end when the client is closed
CONNECTING_AT_ONCE = 128  # more would overrun a server's accept backlog
LONGEST_REST = 60.0  # seconds: servers close a connection that has been idle for longer, Penstock after 75
MOST_BYTES = 1 << 30  # of one answer


class Response(NamedTuple):
    """An answer as it came."""

    status: int
    fields: list[tuple[bytes, bytes]]  # names as the server wrote them
    body: bytes


class Connection(Exchange):
    """One connection to the server. `ask` is called while no other request is on it."""

    def __init__(self, owner: "Connections") -> None:
        super().__init__()
        self._owner = owner
        self._fields: list[tuple[bytes, bytes]] = []
        self._answer: asyncio.Future[Response] | None = None  # what the request on the connection waits for
        self._size = 0  # bytes of the answer so far
        self._too_large = False  # whether the answer had more than MOST_BYTES
        self.keep = True  # whether the connection may be used again
        self.ended = False  # whether the connection has been closed, by either side
        self.since = 0.0  # when the connection became idle

    async def ask(self, request: bytes, limit: float | None) -> Response:
        """Sends a request, and returns the answer. `limit`: how many seconds to wait for it; None without a limit.
        Raises InferenceError."""
        if self.ended:
            raise NoContact("the connection was closed", code="BROKEN_OFF", again=True)
        loop = self._owner.loop
        self._fields, self._size = [], 0
        answer: asyncio.Future[Response] = loop.create_future()
        self._answer = answer
        timer = None if limit is None else loop.call_later(max(0.0, limit), self._give_up)
        self.write(request)
        try:
            return await answer
        finally:
            if timer is not None:
                timer.cancel()
            if self._answer is not None:  # the caller was cancelled
                self._answer = None
                self.keep = False
                self.transport.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._fields.append((name, value))

    def on_body(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > MOST_BYTES:
            self._too_large = True
            self.transport.abort()
        else:
            super().on_body(part)

    def answered(self, status: int, body: bytes, keep: bool) -> None:
        answer, self._answer = self._answer, None
        self.keep = keep and answer is not None
        self.rested = True
        if answer is not None and not answer.done():
            answer.set_result(Response(status, self._fields, body))

    def lost(self) -> None:
        self.ended = True
        self._end(
            Failed(f"the answer has more than {MOST_BYTES} bytes")
            if self._too_large
            else NoContact(
                "the connection was closed before the answer", code="BROKEN_OFF", again=True, maybe_run=True
            )
        )
        self._owner.lost(self)

    def _give_up(self) -> None:
        self._end(Late("the server gave no answer in time", code="NO_ANSWER", maybe_run=True))
        self.transport.abort()

    def _end(self, error: Exception) -> None:
        self.keep = False
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            answer.set_exception(error)


class Connections:
    """All connections of one client to its server."""

    def __init__(
        self, host: str, port: int, tls: ssl.SSLContext | None, most: int, loop: asyncio.AbstractEventLoop
    ) -> None:
        """`most`: so many connections may be open at once."""
        self.loop = loop
        self._host, self._port, self._tls = host, port, tls
        self._most = most
        self._open = 0  # how many are open; those that are being opened count as well
        # Idle connections. The last used is used first, so that few connections do the work.
        self._idle: dict[Connection, None] = {}
        self._alive: set[Connection] = set()  # all that are open, idle or not
        # Requests that wait for a connection. None tells one to look again for itself.
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        self._gate = asyncio.Semaphore(CONNECTING_AT_ONCE)
        self._closed = False  # whether the client is closed
        self._gone = asyncio.Event()  # set when the client is closed, and all connections with it

    async def exchange(self, request: bytes, limit: float | None) -> Response:
        """Sends a request, and returns the answer. `limit`: how many seconds it may take, with the wait for a
        connection; None without a limit. Raises InferenceError."""
        end = None if limit is None else self.loop.time() + limit
        connection = self._rested() or await self._free(end)
        was_rested = connection.rested
        try:
            return await connection.ask(request, None if end is None else end - self.loop.time())
        except NoContact as error:
            # A server may close an idle connection just as a request goes out: then there is nothing to wait for.
            if was_rested and not connection.heard:
                error.retry_after = 0.0
            raise
        finally:
            self._give_back(connection)

    async def close(self) -> None:
        """Ends all connections. Requests under way and requests that wait fail."""
        self._closed = True
        for connection in list(self._alive):
            connection.transport.abort()
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
        self._check_gone()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._gone.wait()
        except TimeoutError:
            pass

    def lost(self, connection: Connection) -> None:
        """Called by a connection that has ended."""
        if connection in self._alive:  # else it was lost while it was being opened
            self._alive.discard(connection)
            self._idle.pop(connection, None)
            self._open -= 1
            self._call_next(None)
            self._check_gone()

    def _check_gone(self) -> None:
        if self._closed and not self._alive:
            self._gone.set()

    def _rested(self) -> Connection | None:
        """Returns an idle connection, if there is one."""
        while self._idle:
            connection, _ = self._idle.popitem()
            if not connection.transport.is_closing() and self.loop.time() - connection.since < LONGEST_REST:
                return connection
            connection.transport.close()
        return None

    async def _free(self, end: float | None) -> Connection:
        """Opens a connection, or waits for one to be free until the time `end`. Raises InferenceError."""
        while not self._closed:
            if self._open < self._most:
                return await self._connect(end)
            waiter: asyncio.Future[Connection | None] = self.loop.create_future()
            self._waiting.append(waiter)
            try:
                async with asyncio.timeout_at(end):
                    given = await waiter
            except BaseException as error:
                if waiter.done() and not waiter.cancelled():  # it was handed over in the same turn
                    self._pass_on(waiter.result())
                if isinstance(error, TimeoutError):
                    raise Late("no connection was free in time", code="NO_ANSWER") from None
                raise
            connection = given or self._rested()
            if connection is not None and not connection.transport.is_closing():
                return connection
        raise NoContact("the client is closed", code="CLOSED")

    async def _connect(self, end: float | None) -> Connection:
        self._open += 1
        latest = self.loop.time() + CONNECT_SECONDS
        where = f"{self._host}:{self._port}"
        try:
            async with asyncio.timeout_at(latest if end is None else min(latest, end)), self._gate:
                _, connection = await self.loop.create_connection(
                    lambda: Connection(self),
                    self._host,
                    self._port,
                    ssl=self._tls,
                    server_hostname=self._host if self._tls else None,
                )
        except BaseException as error:
            self._open -= 1
            self._call_next(None)
            if isinstance(error, TimeoutError):
                raise NoContact(
                    f"{where} took no connection in time", code="NO_CONNECTION", again=True
                ) from None
            if isinstance(error, ssl.SSLError):
                raise NoContact(f"{where} cannot be trusted: {error.reason or error}", code="TLS") from error
            if isinstance(error, OSError):
                why = error.strerror or str(error)
                raise NoContact(
                    f"no connection to {where}: {why}", code="NO_CONNECTION", again=True
                ) from error
            raise
        self._alive.add(connection)
        return connection

    def _give_back(self, connection: Connection) -> None:
        if connection.transport.is_closing():
            return  # `lost` is called
        if connection.keep and not self._closed:
            self._pass_on(connection)
        else:
            connection.transport.close()

    def _pass_on(self, connection: Connection | None) -> None:
        """Hands the connection to a request that waits; if none does, the connection is idle from now on."""
        if not self._call_next(connection) and connection is not None:
            connection.since = self.loop.time()
            self._idle[connection] = None

    def _call_next(self, connection: Connection | None) -> bool:
        """Wakes the request that has waited longest, and hands it the connection; None tells it that it may open
        one. Returns False if no request waits."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return True
        return False
