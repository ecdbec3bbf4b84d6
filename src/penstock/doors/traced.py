"""Traces the requests of the data plane. It stands between the edge and the data plane, if the configuration asks
for traces, and asks the tracer about each request.

A request that is not traced is handed on as it is. One that is traced goes on with the traceparent of its own span,
and so do its waits, its batches and its backend. Doors for everybody (`/docs`) are not traced. Asks that are no
requests by themselves, as messages over a WebSocket, are traced by `ask_traces.py`.
"""

from collections.abc import Callable

from penstock.doors.ask_traces import LEFT
from penstock.edge.answer import Answer, Fields
from penstock.edge.app import App
from penstock.edge.body import Whole
from penstock.edge.caller import Caller, Parts, Render, nothing_asked
from penstock.edge.fields import Headers, trace_in_bytes
from penstock.edge.heads import POST, Head
from penstock.edge.talk import Talk
from penstock.edge.url import split
from penstock.ports import Leaving
from penstock.ports.tracing import ByHttp, RequestSpan, RequestTracer, Served, Way
from penstock.types import Reply

GET = b"GET"
# Says how a request came and ended, by its method, its URL, the path of its door, its status and its error code.
Describe = Callable[[bytes, bytes, str, int, str], Way]


def by_http(method: bytes, url: bytes, route: str, status: int, code: str) -> Way:
    path = route if url.decode("latin-1") == route else split(url)[0]
    return ByHttp(method.decode("latin-1"), path, route, status)


class TracedPlane:
    """Implements `edge.app.App`, and hands requests on to another `App`."""

    def __init__(
        self, app: App, tracer: RequestTracer, path_of: Callable[[bytes], str], describe: Describe = by_http
    ) -> None:
        """`path_of`: the path of the door that a URL leads to; empty if requests there are not traced. `describe`:
        says in its protocol's words how a request came and ended."""
        self._app, self._path_of, self._describe = app, path_of, describe
        self._begin = tracer.begin

    def handle_ordinary(self, caller: Caller, head: Head, body: bytes) -> None:
        span = self._begin(head.traceparent, head.tracestate)
        if span is None:
            self._app.handle_ordinary(caller, head, body)
            return
        route = self._path_of(head.url)
        if route:
            head.traceparent = span.traceparent
            if span.is_new:
                head.tracestate = None
            if span.recorded:
                caller = TracedCaller(caller, span, self._describe, POST, head.url, route)
        self._app.handle_ordinary(caller, head, body)

    def handle(self, caller: Caller, method: bytes, url: bytes, headers: Headers, body: Whole) -> None:
        span = self._begin(*trace_in_bytes(headers))
        route = "" if span is None else self._path_of(url)
        if span is not None and route:
            # A GET may begin a conversation. If its client names no trace, each message begins one of its own: the
            # trace of a connection would grow for as long as the connection lasts.
            if method != GET or not span.is_new:
                headers = {**headers, b"traceparent": span.traceparent}
                if span.is_new:
                    headers.pop(b"tracestate", None)
            if span.recorded:
                caller = TracedCaller(caller, span, self._describe, method, url, route)
        self._app.handle(caller, method, url, headers, body)

    def who(self, method: bytes, url: bytes, headers: Headers) -> str:
        return self._app.who(method, url, headers)

    def most_body(self, url: bytes) -> int:
        return self._app.most_body(url)

    def refuse(self, caller: Caller, exc: Exception, url: bytes, headers: Headers) -> None:
        self._app.refuse(caller, exc, url, headers)


class TracedCaller:
    """A caller whose request is traced. Its span ends with the answer, or when the client leaves. A connection may
    keep this until its next request comes, so nothing of the request is kept here once its span has ended."""

    __slots__ = (
        "_caller", "_describe", "_leaving", "_method", "_render", "_reply", "_route", "_span", "_url"
    )  # fmt: skip

    def __init__(
        self, caller: Caller, span: RequestSpan, describe: Describe, method: bytes, url: bytes, route: str
    ) -> None:
        self._caller, self._method, self._url, self._route = caller, method, url, route
        self._describe = describe
        self._span: RequestSpan | None = span  # None: it has ended
        self._reply: Reply | None = None
        self._leaving: Leaving | None = None
        self._render: Render = nothing_asked

    @property
    def leaving(self) -> Leaving | None:
        return self._leaving

    @leaving.setter
    def leaving(self, leaving: Leaving | None) -> None:
        self._leaving = leaving
        self._caller.leaving = None if leaving is None else self

    def left(self) -> None:
        leaving = self._leaving
        if leaving is not None:
            leaving.left()
        self._end(0, LEFT)

    @property
    def render(self) -> Render:
        return self._render

    @render.setter
    def render(self, render: Render) -> None:
        self._render = render
        self._caller.render = self._rendered

    def _rendered(self, reply: Reply, now: float) -> Answer:
        answer = self._render(reply, now)
        self._end(answer.status, answer.code if reply.failure is None else reply.failure.code)
        return answer

    def reply(self, reply: Reply) -> None:
        self._reply = reply
        self._caller.reply(reply)
        if self._span is not None:  # it was not rendered, since the client had left
            self._end(0, "" if reply.failure is None else reply.failure.code)

    def respond(self, answer: Answer, tenant: str = "") -> None:
        self._end(answer.status, answer.code, answer.fields)
        self._caller.respond(answer, tenant)

    def begin(self, answer: Answer, tenant: str = "") -> Parts | None:
        leaving = self._leaving  # the span ends here, and the answer goes on
        self._end(answer.status, answer.code)
        self._leaving = leaving
        return self._caller.begin(answer, tenant)

    def switch(self, answer: Answer, talk: Talk) -> None:
        self._caller.switch(answer, talk)
        self._end(answer.status, "")

    def _end(self, status: int, code: str, fields: Fields = ()) -> None:
        """End the span; the first call counts. `fields`: of the answer, one of which may name the request."""
        span, reply = self._span, self._reply
        self._span = self._reply = self._leaving = None
        if span is not None:
            way = self._describe(self._method, self._url, self._route, status, code)
            request_id = "" if reply is not None else dict(fields).get("x-request-id", "")
            span.ended(Served(way, code, reply, request_id))
