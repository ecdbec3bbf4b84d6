"""How requests of a client reach the server: the contract of a road, and the usual one, with a connection for each
request under way (`connections.py`). `stream_road.py` is the other road, one connection for many requests.
`async_client.py` makes one of them, and `asking.py` sends by either."""

import asyncio
from typing import Protocol
from urllib.parse import urlencode

from penstock.client.body import Body, encode
from penstock.client.connections import Connections, Response

POLL_SLACK = 5.0  # seconds beyond those that the server may keep us waiting for a task's result


class Road(Protocol):
    """A way to the server, for all requests of one client."""

    loop: asyncio.AbstractEventLoop

    async def send(self, body: Body, key: str | None, limit: float | None) -> Response:
        """Sends a request, and returns the answer. `key`: the Idempotency-Key. `limit`: seconds that this may
        take. Raises InferenceError."""
        ...

    async def result(self, task: str, wait: float, client_id: str | None) -> Response:
        """Returns what the server says of a task. `wait`: the server may wait so many seconds for its end.
        `client_id`: whose task it is. Raises InferenceError."""
        ...

    async def close(self) -> None: ...


class HttpRoad:
    """Implements `Road` over HTTP/1.1. `head`: the part of the head that all requests share. `results`: the path
    under which the results of tasks are."""

    def __init__(self, connections: Connections, head: bytes, results: str) -> None:
        self.loop = connections.loop
        self._connections, self._head, self._results = connections, head, results
        self._polling = head.partition(b"\r\n")[2] + b"\r\n"

    async def send(self, body: Body, key: str | None, limit: float | None) -> Response:
        form, content = encode(body)
        line = b"" if key is None else b"Idempotency-Key: %b\r\n" % key.encode()
        request = b"%b%b%bContent-Length: %d\r\n\r\n%b" % (self._head, form, line, len(content), content)
        return await self._connections.exchange(request, limit)

    async def result(self, task: str, wait: float, client_id: str | None) -> Response:
        query = {"wait_ms": str(int(wait * 1000))} | ({} if client_id is None else {"client_id": client_id})
        line = f"GET {self._results}{task}?{urlencode(query)} HTTP/1.1\r\n".encode()
        return await self._connections.exchange(line + self._polling, wait + POLL_SLACK)

    async def close(self) -> None:
        await self._connections.close()
