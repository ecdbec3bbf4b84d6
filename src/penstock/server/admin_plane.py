"""The admin plane on an edge of its own: who may connect and ask there, and how much at once. `listen.py` makes
the `AdminPlane` and the `AdminEdge`; the application behind them is `admin/app.py`.

A client that opens connections and sends nothing must not keep the probes out. So when the admin plane is full, or
one address has as many connections as it may, the connection that has been silent longest makes room. Probes are
always answered; of all other requests only `MOST_AT_ONCE` are handled at a time.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from itertools import islice
from typing import cast

import msgspec
from starlette.types import ASGIApp

from penstock.admin.app import PROBES
from penstock.admin.guard import Guard
from penstock.edge.answer import JSON, Answer
from penstock.edge.body import Whole
from penstock.edge.bounds import State
from penstock.edge.caller import Caller
from penstock.edge.edge import Counted, Edge, EdgeLimits
from penstock.edge.fields import Headers
from penstock.edge.heads import POST, Head
from penstock.edge.http1 import Connection
from penstock.edge.tls import Tls
from penstock.edge.url import split
from penstock.errors import Internal, Overloaded, PenstockError
from penstock.server.admin_request import AdminRequest

MOST_CONNECTIONS = 1024  # of all addresses
MOST_FROM_ONE = 512  # connections of one address
MOST_AT_ONCE = 64  # requests, besides probes
# To find a connection that makes room, so many of the oldest are looked at. Not all of them can be in use.
OLDEST = 2 * MOST_AT_ONCE

log = logging.getLogger("penstock.admin")


class AdminPlane:
    """Implements `edge.app.App` for an ASGI application."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard
        self._tasks: set[asyncio.Task[None]] = set()
        self._at_once = 0  # requests in hand, besides probes

    def handle(self, caller: Caller, method: bytes, url: bytes, headers: Headers, body: Whole) -> None:
        assert isinstance(body, bytes)  # no body here may be larger than others
        try:
            path, query = split(url)
            probe = path in PROBES
            if not probe:
                self._guard.check(method, headers)
                if self._at_once >= MOST_AT_ONCE:
                    raise Overloaded(
                        f"the admin plane has {MOST_AT_ONCE} requests in hand: ask again", retry_after=1.0
                    )
        except PenstockError as refusal:
            self.refuse(caller, refusal, url, headers)
            return
        scope = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "1.1",
            "method": method.decode(), "scheme": "http", "path": path, "query_string": query.encode(),
            "headers": list(headers.items()),
        }  # fmt: skip
        asked = AdminRequest(self._app, caller, scope, body)
        self._at_once += not probe
        task = asyncio.create_task(self._answer(asked, headers))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if not probe:
            asked.in_hand.add_done_callback(self._done)

    def handle_ordinary(self, caller: Caller, head: Head, body: bytes) -> None:
        self.handle(caller, POST, head.url, head.headers, body)

    def most_body(self, url: bytes) -> int:
        return 0

    def who(self, method: bytes, url: bytes, headers: Headers) -> str:
        """Returns no name: the admin plane has no tenants. Raises what the guard raises, before more of the body is
        read."""
        self._guard.check(method, headers)
        return ""

    def refuse(self, caller: Caller, exc: Exception, url: bytes, headers: Headers) -> None:
        error = exc if isinstance(exc, PenstockError) else Internal("the server failed; its log says how")
        body = msgspec.json.encode({"error": error.code, "message": error.message})
        more = [("retry-after", "1")] if error.retry_after is not None else []
        caller.respond(Answer(error.status, [JSON, *more], body))

    def _done(self, _: "asyncio.Future[None]") -> None:
        self._at_once -= 1

    async def _answer(self, asked: AdminRequest, headers: Headers) -> None:
        try:
            await asked.run()
        except Exception as exc:
            log.error("a request to the admin plane failed", exc_info=exc)
            if not asked.begun:
                self.refuse(asked.caller, exc, b"", headers)
        finally:
            asked.end()


class InOrder(set[Counted]):
    """Connections in the order in which they came."""

    def __init__(self) -> None:
        super().__init__()
        self._order: dict[Counted, None] = {}

    def add(self, member: Counted) -> None:
        super().add(member)
        self._order[member] = None

    def discard(self, member: object) -> None:
        super().discard(member)
        self._order.pop(cast(Counted, member), None)

    def __iter__(self) -> Iterator[Counted]:
        return iter(self._order)

    def silent(self) -> Counted | None:
        """Returns the oldest connection that never sent anything, or else the oldest without a request in hand."""
        oldest = [each for each in islice(self._order, OLDEST) if each.state < State.BUSY]
        return next((each for each in oldest if each.state == State.NEW), oldest[0] if oldest else None)


class AdminEdge(Edge):
    """The edge of an admin plane, where silent connections make room for new ones."""

    def __init__(
        self,
        app: AdminPlane,
        limits: EdgeLimits,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        tls: Tls | None = None,
    ) -> None:
        super().__init__(app, limits, loop, clock, tls)
        self.connections: InOrder = InOrder()
        self._by_address: dict[str, InOrder] = {}  # empty with TLS: then only the total is bounded
        if tls is None:
            self._make = AdminConnection

    @property
    def full(self) -> bool:
        """Whether there is no room for a connection that has come and is counted already. A silent one makes room
        for it, if there is one."""
        if super().full:
            self._make_room(self.connections)
        return super().full

    def arrives(self, member: Counted, address: str) -> None:
        same = self._by_address.setdefault(address, InOrder())
        if len(same) >= MOST_FROM_ONE:
            self._make_room(same)
        same.add(member)

    def leaves(self, member: Counted, address: str) -> None:
        same = self._by_address[address]
        same.discard(member)
        if not same:
            del self._by_address[address]

    def _make_room(self, members: InOrder) -> None:
        silent = members.silent()
        if silent is not None:
            members.discard(silent)  # at once, because `leaves` is called for it only later
            self.connections.discard(silent)
            silent.abort()


class AdminConnection(Connection):
    """A connection that tells the edge its address."""

    __slots__ = ("_address",)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        self._address = peer[0] if peer else ""
        cast(AdminEdge, self._edge).arrives(self, self._address)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        cast(AdminEdge, self._edge).leaves(self, self._address)
        super().connection_lost(exc)
