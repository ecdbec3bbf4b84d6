"""One HTTP/1.1 connection to a server, and the one request on it. The client's connections (`connections.py`) and
those of the load generator (`bench/pool.py`) are subclasses.

It reads answers and tells its subclass. What to send, and what becomes of an answer, is the subclass's affair.
"""

import asyncio
from typing import cast

import httptools


class Exchange(asyncio.Protocol):
    """A connection. A subclass that has `on_header` is told the header fields of each answer too."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._body = b""  # of the answer that is being read
        self.transport: asyncio.Transport
        self.rested = False  # whether it has been idle, so that the server may have closed it
        self.heard = False  # whether bytes have come since the request went out

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def write(self, request: bytes) -> None:
        self.heard = False
        self._body = b""
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        self.heard = True
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.transport.abort()

    def on_body(self, part: bytes) -> None:
        self._body = self._body + part if self._body else part

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200:  # 1xx only announces the answer
            self.answered(status, self._body, self._parser.should_keep_alive())

    def connection_lost(self, exc: Exception | None) -> None:
        del self._parser  # parser and connection hold each other: the cycle collector need not free them
        self.lost()

    def answered(self, status: int, body: bytes, keep: bool) -> None:
        """Called for each answer. `keep`: the connection may be used again."""
        raise NotImplementedError

    def lost(self) -> None:
        """Called when the connection has ended."""
        raise NotImplementedError
