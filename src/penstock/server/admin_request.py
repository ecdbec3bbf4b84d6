"""One request to the admin plane and its answer, between our edge and the ASGI application. `admin_plane.py` makes
an `AdminRequest` for each.

Most answers are sent whole. One that comes in parts, such as a stream of events, is sent part by part over HTTP/1.1
(all that the admin plane speaks), and ends with its connection. If its client leaves, or takes nothing for a while,
the application is told by a cancellation.
"""

import asyncio
from collections.abc import MutableMapping
from typing import Any

from starlette.types import ASGIApp

from penstock.edge.answer import Answer
from penstock.edge.caller import Caller, Parts
from penstock.edge.http1 import Connection


class AdminRequest:
    """A request that the ASGI application answers."""

    def __init__(self, app: ASGIApp, caller: Caller, scope: MutableMapping[str, Any], body: bytes) -> None:
        self._app, self.caller, self._scope, self._body = app, caller, scope, body
        # Done once the answer is ready, or has begun to come in parts: a stream is not work in hand.
        self.in_hand: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._status = 500
        self._fields: list[tuple[str, str]] = []  # the header fields of the answer
        self._parts: list[bytes] = []  # of an answer that is sent whole
        self._sent: Parts | None = None  # where parts go, once they have begun to
        self._task: asyncio.Task[None] | None = None  # the task that runs the application

    @property
    def begun(self) -> bool:
        """Whether parts of the answer have been sent."""
        return self._sent is not None

    async def run(self) -> None:
        """Have the application answer."""
        self._task = asyncio.current_task()
        await self._app(self._scope, self._receive, self._send)
        if not self.begun:
            self.caller.respond(Answer(self._status, self._fields, b"".join(self._parts)))

    def left(self) -> None:
        """Called by the connection when its client has gone while parts were sent to it."""
        if self._task is not None:
            self._task.cancel()

    def end(self) -> None:
        """Ends an answer that came in parts. The request is no longer in hand."""
        if self._sent is not None:
            self._sent.end(b"")
        if not self.in_hand.done():
            self.in_hand.set_result(None)

    # ---- what the application calls ------------------------------------------------------------------------

    async def _receive(self) -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._fields.extend(
                (name.decode("latin-1"), value.decode("latin-1"))
                for name, value in message["headers"]
                if name != b"content-length"
            )
        elif self.begun:
            self._send_part(message.get("body", b""))
        elif message.get("more_body") and isinstance(self.caller, Connection):
            self._begin(self.caller)
            self._send_part(message.get("body", b""))
        else:
            self._parts.append(message.get("body", b""))

    def _begin(self, connection: Connection) -> None:
        sent = connection.begin(Answer(self._status, self._fields, b""))
        if sent is None:
            raise asyncio.CancelledError
        self._sent = sent
        connection.leaving = self
        self.in_hand.set_result(None)

    def _send_part(self, part: bytes) -> None:
        assert self._sent is not None
        self._sent.send(part)  # `left` is called if its connection ends
