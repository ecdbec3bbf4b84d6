"""How requests of a client reach the server: a contract, and the way that is usual, a connection for each
request under way (`connections.py`). `stream_road.py` is the other way, one connection for many. `asking.py`
sends by either."""

import asyncio
from typing import Protocol
from urllib.parse import urlencode

from penstock.client.body import Body, encode
from penstock.client.connections import Connections, Response

POLL_SLACK = 5.0  # seconds beyond those that the server may keep us waiting for a task's result


class Road(Protocol):
    loop: asyncio.AbstractEventLoop

    async def send(self, body: Body, key: str | None, limit: float | None) -> Response:
        """Sends a request, and returns the answer. `key`: the Idempotency-Key. `limit`: seconds that it may
        take. Raises InferenceError."""
        ...

    async def result(self, task: str, wait: float, client_id: str | None) -> Response:
        """Returns where a task stands; the server may wait so many seconds for its end."""
        ...

    async def close(self) -> None: ...


class HttpRoad:
    """Implements `Road` over HTTP/1.1. `head`: of requests, up to where they differ. `results`: where results
    of tasks are."""

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
