"""Requests of web pages that came from elsewhere (CORS): which origins may ask, and what a browser may read.

This stands before the application, and is not there at all where `server.cors_origins` is empty. Nothing is allowed
with cookies: a page says who asks in a header that it sets itself.
"""

from collections.abc import Sequence

from penstock.doors import answers
from penstock.edge.caller import Caller
from penstock.edge.edge import App
from penstock.edge.heads import Head, Headers
from penstock.errors import Forbidden
from penstock.ports import Leaving
from penstock.types import Execution, Reply

METHODS = "GET, POST, DELETE"
SENT = (
    "authorization, content-type, idempotency-key, prefer, traceparent, tracestate, x-api-key, x-request-id"
)
READ = (
    "idempotency-replayed, location, preference-applied, ratelimit-limit, ratelimit-remaining, ratelimit-reset, "
    "retry-after, server-timing, traceparent, www-authenticate, x-request-id"
)
REMEMBERED = "7200"  # seconds that a browser need not ask again; no browser remembers longer
VARY = ("vary", "Origin")

Fields = Sequence[tuple[str, str]]


class CrossOrigin:
    """An App before another."""

    def __init__(self, app: App, origins: Sequence[str]) -> None:
        self._app = app
        self._any = "*" in origins
        self._known = {origin.encode(): _allowed(origin, VARY) for origin in origins}
        self._others: Fields = _allowed("*") if self._any else (VARY,)

    def _fields(self, headers: Headers) -> Fields:
        """What the head of the answer says besides."""
        origin = headers.get(b"origin")
        return self._others if origin is None or self._any else self._known.get(origin, self._others)

    def handle(self, connection: Caller, method: bytes, url: bytes, headers: Headers, body: bytes) -> None:
        fields = self._fields(headers)
        if _is_preflight(method, headers):
            self._preflight(connection, headers, fields)
        else:
            self._app.handle(Crossing(connection, fields), method, url, headers, body)

    def handle_ordinary(self, connection: Caller, head: Head, body: bytes) -> None:
        """An ordinary head names no origin."""
        self._app.handle_ordinary(Crossing(connection, self._others), head, body)

    def who(self, method: bytes, url: bytes, headers: Headers) -> str:
        return "" if _is_preflight(method, headers) else self._app.who(method, url, headers)

    def refuse(self, connection: Caller, exc: Exception, headers: Headers) -> None:
        self._app.refuse(Crossing(connection, self._fields(headers)), exc, headers)

    def _preflight(self, connection: Caller, headers: Headers, fields: Fields) -> None:
        """What a browser asks before it sends a page's request."""
        if fields is self._others and not self._any:
            origin = headers[b"origin"][:100].decode("ascii", "replace")
            refusal = Forbidden(f"the origin {origin} is not in server.cors_origins")
            self._app.refuse(Crossing(connection, fields), refusal, headers)
            return
        told = [
            ("access-control-allow-methods", METHODS),
            ("access-control-allow-headers", SENT),
            ("access-control-max-age", REMEMBERED),
        ]
        connection.respond(200, [*fields, *told], b"")


class Crossing:
    """A caller whose answer, whatever it is, says who may read it."""

    __slots__ = ("_caller", "_fields", "render")

    def __init__(self, caller: Caller, fields: Fields) -> None:
        self._caller = caller
        self._fields = fields
        self.render: answers.Render = answers.full_answer

    @property
    def leaving(self) -> Leaving | None:
        return self._caller.leaving

    @leaving.setter
    def leaving(self, leaving: Leaving | None) -> None:
        self._caller.leaving = leaving

    def reply(self, reply: Reply) -> None:
        if reply.execution is None:
            assert reply.failure is not None
            self.respond(*answers.error(reply.failure, reply.request.request_id))
            return
        self._caller.render = self._render
        self._caller.reply(reply)
        self._caller.render = answers.full_answer  # else the two would hold each other

    def _render(self, reply: Reply, execution: Execution, now: float, ending: str) -> bytes:
        lines = "".join([f"{name}: {value}\r\n" for name, value in self._fields])
        return self.render(reply, execution, now, lines + ending)

    def respond(self, status: int, headers: Fields, body: bytes, tenant: str = "") -> None:
        self._caller.respond(status, [*headers, *self._fields], body, tenant)


def _is_preflight(method: bytes, headers: Headers) -> bool:
    return method == b"OPTIONS" and b"origin" in headers and b"access-control-request-method" in headers


def _allowed(origin: str, *more: tuple[str, str]) -> Fields:
    return (
        ("access-control-allow-origin", origin),
        ("access-control-expose-headers", READ),
        *more,
    )
