"""Answers overload with another status than 503, where the operator wants it so (`api.overload_status`).

`roles/data_plane.py` puts it between the edge and the data plane, if the status is another. Some load balancers
take out a server that answers 5xx a few times in a row. But an overloaded gateway is well, and its neighbours are
as busy. Only `SERVICE_OVERLOADED` gets the other status, in the shape of whatever door. A server that stops, or
cannot reach Redis, still says 503.
"""

from penstock.edge.answer import Answer
from penstock.edge.app import App
from penstock.edge.body import Whole
from penstock.edge.caller import Caller, Parts, Render, nothing_asked
from penstock.edge.fields import Headers
from penstock.edge.heads import Head
from penstock.edge.talk import Talk
from penstock.errors import Overloaded
from penstock.ports import Leaving
from penstock.types import Reply


class OverloadStatus:
    """Implements `edge.app.App`, and hands requests on to another `App`."""

    def __init__(self, app: App, status: int) -> None:
        self._app = app
        self._status = status

    def handle(self, caller: Caller, method: bytes, url: bytes, headers: Headers, body: Whole) -> None:
        self._app.handle(Restated(caller, self._status), method, url, headers, body)

    def handle_ordinary(self, caller: Caller, head: Head, body: bytes) -> None:
        self._app.handle_ordinary(Restated(caller, self._status), head, body)

    def who(self, method: bytes, url: bytes, headers: Headers) -> str:
        return self._app.who(method, url, headers)

    def most_body(self, url: bytes) -> int:
        return self._app.most_body(url)

    def refuse(self, caller: Caller, exc: Exception, url: bytes, headers: Headers) -> None:
        self._app.refuse(Restated(caller, self._status), exc, url, headers)


class Restated:
    """A caller whose answers that tell of overload have another status."""

    __slots__ = ("_caller", "_render", "_status")

    def __init__(self, caller: Caller, status: int) -> None:
        self._caller = caller
        self._status = status
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
        self._render, status = render, self._status

        def restated(reply: Reply, now: float) -> Answer:
            code = "" if reply.failure is None else reply.failure.code
            return _restated(render(reply, now), code, status)

        self._caller.render = restated

    def reply(self, reply: Reply) -> None:
        self._caller.reply(reply)

    def respond(self, answer: Answer, tenant: str = "") -> None:
        self._caller.respond(_restated(answer, answer.code, self._status), tenant)

    def begin(self, answer: Answer, tenant: str = "") -> Parts | None:
        return self._caller.begin(answer, tenant)

    def switch(self, answer: Answer, talk: Talk) -> None:
        self._caller.switch(answer, talk)


def _restated(answer: Answer, code: str, status: int) -> Answer:
    if code == Overloaded.code:
        answer.status = status
    return answer
