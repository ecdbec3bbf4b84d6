"""Requests of web pages from other origins (CORS): which origins may ask, and which header fields a browser may
read.

`roles/data_plane.py` puts it between the edge and the data plane, unless `server.cors_origins` is empty. Cookies
are not allowed: a page sends its credential in a header that it sets itself.
"""

import re
from collections.abc import Sequence

from penstock.edge.answer import Answer, Fields, with_fields
from penstock.edge.app import App
from penstock.edge.body import Whole
from penstock.edge.caller import Caller, Parts, Render, nothing_asked
from penstock.edge.fields import Headers
from penstock.edge.heads import Head
from penstock.edge.talk import Talk
from penstock.errors import Forbidden
from penstock.ports import Leaving
from penstock.types import Reply

METHODS = "GET, POST, DELETE"
SENT = (
    "authorization, content-type, idempotency-key, prefer, traceparent, tracestate, x-api-key, x-request-id"
)
# Fields that clients of other servers send beside these (OpenAI's: x-stainless-…) are allowed too: a page that may
# ask may say what it likes, as clients that are no browsers do. Cookies stay out, since no credentials are allowed.
MOST_NAMES = 64  # that a preflight asks for; beyond it, those above are allowed
NAME = re.compile(rb"[!#-'+\-.0-9A-Z^-z|~]{1,128}")  # a token, but for *, which would mean all names
READ = (
    "idempotency-replayed, inference-header-content-length, location, preference-applied, ratelimit-limit, "
    "ratelimit-remaining, ratelimit-reset, retry-after, server-timing, traceparent, www-authenticate, x-request-id"
)
REMEMBERED = "7200"  # seconds for which a browser need not ask again; no browser remembers it longer
VARY = ("vary", "Origin")


class CrossOrigin:
    """Implements `edge.app.App`, and hands requests on to another `App`."""

    def __init__(self, app: App, origins: Sequence[str]) -> None:
        self._app = app
        self._any = "*" in origins
        self._known = {origin.encode(): _allowed(origin, VARY) for origin in origins}
        self._others: Fields = _allowed("*") if self._any else (VARY,)

    def _fields(self, headers: Headers) -> Fields:
        """Returns the fields that are added to the head of the answer."""
        origin = headers.get(b"origin")
        return self._others if origin is None or self._any else self._known.get(origin, self._others)

    def handle(self, caller: Caller, method: bytes, url: bytes, headers: Headers, body: Whole) -> None:
        fields = self._fields(headers)
        if _is_preflight(method, headers):
            self._preflight(caller, url, headers, fields)
        else:
            self._app.handle(Crossing(caller, fields), method, url, headers, body)

    def handle_ordinary(self, caller: Caller, head: Head, body: bytes) -> None:
        """Handle an ordinary request, whose head never names an origin."""
        self._app.handle_ordinary(Crossing(caller, self._others), head, body)

    def who(self, method: bytes, url: bytes, headers: Headers) -> str:
        return "" if _is_preflight(method, headers) else self._app.who(method, url, headers)

    def most_body(self, url: bytes) -> int:
        return self._app.most_body(url)

    def refuse(self, caller: Caller, exc: Exception, url: bytes, headers: Headers) -> None:
        self._app.refuse(Crossing(caller, self._fields(headers)), exc, url, headers)

    def _preflight(self, caller: Caller, url: bytes, headers: Headers, fields: Fields) -> None:
        """Answer the question that a browser asks before it sends a page's request."""
        if fields is self._others and not self._any:
            origin = headers[b"origin"][:100].decode("ascii", "replace")
            refusal = Forbidden(f"the origin {origin} is not in server.cors_origins")
            self._app.refuse(Crossing(caller, fields), refusal, url, headers)
            return
        told = [
            ("access-control-allow-methods", METHODS),
            ("access-control-allow-headers", _sendable(headers)),
            ("access-control-max-age", REMEMBERED),
        ]
        caller.respond(Answer(200, [*fields, *told], b""))


class Crossing:
    """A caller that adds to each answer the fields that say which origin may read it."""

    __slots__ = ("_caller", "_fields", "_render")

    def __init__(self, caller: Caller, fields: Fields) -> None:
        self._caller = caller
        self._fields = fields
        self._render: Render = nothing_asked

    @property
    def leaving(self) -> Leaving | None:
        return self._caller.leaving

    @leaving.setter
    def leaving(self, leaving: Leaving | None) -> None:
        self._caller.leaving = leaving

    @property
    def render(self) -> Render:
        return self._render

    @render.setter
    def render(self, render: Render) -> None:
        self._render, fields = render, self._fields
        self._caller.render = lambda reply, now: with_fields(render(reply, now), fields)

    def reply(self, reply: Reply) -> None:
        self._caller.reply(reply)

    def respond(self, answer: Answer, tenant: str = "") -> None:
        self._caller.respond(with_fields(answer, self._fields), tenant)

    def begin(self, answer: Answer, tenant: str = "") -> Parts | None:
        return self._caller.begin(with_fields(answer, self._fields), tenant)

    def switch(self, answer: Answer, talk: Talk) -> None:
        self._caller.switch(answer, talk)


def _is_preflight(method: bytes, headers: Headers) -> bool:
    return method == b"OPTIONS" and b"origin" in headers and b"access-control-request-method" in headers


def _sendable(headers: Headers) -> str:
    """Returns the names of the fields that a page may send: those that it asks for, and the usual ones."""
    asked = headers.get(b"access-control-request-headers", b"").split(b",", MOST_NAMES)
    names = [name.strip(b" \t") for name in asked]
    if len(names) > MOST_NAMES or not all(NAME.fullmatch(name) for name in names):
        return SENT
    told = dict.fromkeys([*SENT.split(", "), *(name.decode().lower() for name in names)])
    return ", ".join(told)


def _allowed(origin: str, *more: tuple[str, str]) -> Fields:
    return (
        ("access-control-allow-origin", origin),
        ("access-control-expose-headers", READ),
        *more,
    )
