"""Asks the lines of files through the doors that requests come through, without a connection. Implements
`ports.jobs.Lines`; `open_doors.py` makes it, and `runtime/jobs` calls it."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from penstock.doors.ask_traces import LEFT, AskTrace, AskTraces
from penstock.doors.called_back import refuse_call
from penstock.doors.door import AskingDoor, Call, Inside
from penstock.doors.every_answer import status_of
from penstock.doors.joined import Joined
from penstock.doors.large import LARGE, LargeBodies
from penstock.doors.openai_files.shapes import FILES
from penstock.doors.steps import at_once
from penstock.doors.wishes import Media
from penstock.edge.answer import Answer
from penstock.edge.caller import Parts, Render, nothing_asked
from penstock.edge.fields import NO_HEADERS
from penstock.edge.talk import Talk
from penstock.errors import NoInput, PenstockError
from penstock.jobs import Said
from penstock.ports import Leaving
from penstock.ports.jobs import ReadLine
from penstock.types import Ask, Failure, Identity, Reply

log = logging.getLogger("penstock.jobs")


class DoorLines:
    def __init__(self, inside: Inside, doors: Sequence[AskingDoor]) -> None:
        self._inside = inside
        self._doors: Mapping[str, AskingDoor] = {door.path: door for door in doors}
        self._large = LargeBodies(inside.gateway.clock)
        self._traces = {path: AskTraces("line", path, inside.tracer) for path in self._doors}

    @property
    def endpoints(self) -> Collection[str]:
        return self._doors.keys()

    async def read(self, endpoint: str, body: bytes, identity: Identity | None, name: str) -> ReadLine | Said:
        door = self._doors[endpoint]
        try:
            steps = door.read(body, NO_HEADERS)
            tenant = "" if identity is None else identity.tenant
            asks = at_once(steps) if len(body) <= LARGE else await self._large.look(tenant, steps)
            if not asks:
                raise NoInput("there is no input in the line")
            self._inside.check_number(len(asks))
            refuse_call(asks)
        except PenstockError as error:
            return self.refusal(endpoint, error, name)
        for ask in asks:
            ask.door, ask.identity, ask.request_id, ask.background = FILES, identity, name, True
        return DoorLine(self._inside, door, asks, self._traces[endpoint])

    def refusal(self, endpoint: str, error: Exception, name: str) -> Said:
        if not isinstance(error, PenstockError):
            log.error("a line of a batch failed inside the server", exc_info=error)
        failure = _failure_of(error)
        answer = self._doors[endpoint].failure(failure, name)
        answer.code = failure.code
        return _said(answer)


class DoorLine:
    """Implements `ports.jobs.ReadLine`."""

    def __init__(self, inside: Inside, door: AskingDoor, asks: Sequence[Ask], traces: AskTraces) -> None:
        self._inside, self._door, self._asks, self._traces = inside, door, asks, traces

    @property
    def model(self) -> str | None:
        return self._asks[0].model

    @property
    def requests(self) -> int:
        return len(self._asks)

    def ask(self, answered: Callable[[Said], None]) -> Leaving:
        trace = self._traces.begin()
        for ask in self._asks:
            ask.traceparent = ask.tracestate = None  # of an earlier try
            if trace is not None:
                trace.sign(ask)
        caller = _LineCaller(answered, self._inside.gateway.clock, trace)
        try:
            caller.leaving = self._submit(caller)
        except Exception as error:
            if trace is not None:
                failure, name = _failure_of(error), self._asks[0].request_id or ""
                trace.ended(status_of(failure), failure.code, request_id=name)
            raise
        return caller

    def _submit(self, caller: "_LineCaller") -> Leaving:
        gateway, door, asks = self._inside.gateway, self._door, self._asks
        if len(asks) == 1:
            caller.render = door.render_of(asks, Media.JSON)
            return gateway.submit(asks[0], caller)
        answer = asks.answer if isinstance(asks, Call) else door.answer
        return gateway.submit_all(asks, Joined(caller, answer, door.failure, gateway.clock))


class _LineCaller:
    """Implements `edge.caller.Caller` for a line, which has no connection. Whoever has asked the line calls `left`
    if it is withdrawn."""

    def __init__(
        self, answered: Callable[[Said], None], clock: Callable[[], float], trace: AskTrace | None
    ) -> None:
        self._answered, self._clock, self._trace = answered, clock, trace
        self.leaving: Leaving | None = None
        self.render: Render = nothing_asked

    def reply(self, reply: Reply) -> None:
        answer = self.render(reply, self._clock())
        if reply.failure is not None:
            answer.code = reply.failure.code
        if self._trace is not None:
            self._trace.ended(answer.status, answer.code, reply)
        self.respond(answer)

    def respond(self, answer: Answer, tenant: str = "") -> None:
        if self._trace is not None:
            self._trace.ended(answer.status, answer.code)
        self._answered(_said(answer))

    def left(self) -> None:
        if self.leaving is not None:
            self.leaving.left()
        if self._trace is not None:
            self._trace.ended(0, LEFT)

    def begin(self, answer: Answer, tenant: str = "") -> Parts | None:
        raise AssertionError("a line is answered as a whole")

    def switch(self, answer: Answer, talk: Talk) -> None:
        raise AssertionError("a line is no conversation")


def _failure_of(error: Exception) -> Failure:
    if isinstance(error, PenstockError):
        return Failure.of(error)
    return Failure("INTERNAL", "the server failed; its log says how")


def _said(answer: Answer) -> Said:
    wait = next((value for name, value in answer.fields if name == "retry-after"), None)
    return Said(answer.status, answer.whole, answer.code, None if wait is None else float(wait))
