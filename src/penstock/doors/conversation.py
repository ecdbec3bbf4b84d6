"""One client's conversation over a WebSocket: many asks at once, each answered as soon as it is ready. The door
begins one for each connection (`websocket.py`); the connection tells it of each message (`edge/websocket.py`), and
the gateway answers it.

    {"id": 1, "input": "hello"}              ──►  {"id": 1, "request_id": …, "output": …}, or {"id": 1, "error": …}
    {"cancel": 1}                            ──►  {"id": 1, "error": "CANCELLED", …}, unless it was answered
    {"authorization": "Bearer pk_…"}         who asks from now on

Each ask is let in, charged, counted and traced as one that comes by itself. A message that needs much looking at
waits for its turn with the large bodies of all others, and its connection waits with it.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

import msgspec

from penstock.doors.ask_traces import LEFT, AskTrace, AskTraces
from penstock.doors.door import Inside
from penstock.doors.every_answer import failed, status_of
from penstock.doors.inputs import BACKSLASH, DELETE, QUOTE, decode, inputs_of
from penstock.doors.large import LARGE
from penstock.doors.native import around_output
from penstock.doors.native_body import asked
from penstock.doors.plain import is_plain
from penstock.doors.reception import Reception
from penstock.doors.stream_message import (
    MESSAGE,
    NOBODY,
    Message,
    check_ask,
    decode_message,
    id_in,
    in_words,
    name_of,
    read_in_steps,
)
from penstock.edge.fields import NO_HEADERS, Headers
from penstock.edge.talk import Wire
from penstock.errors import (
    Conflict,
    Forbidden,
    KeysWanted,
    OverQuota,
    Unacceptable,
    Unauthorized,
    UnsupportedMedia,
)
from penstock.ports import Waiting
from penstock.types import Ask, Identity, Reply

WEBSOCKET = "websocket"  # the name of the door
POLICY = 1008  # of RFC 6455, 7.4.1: the client may not go on as it has begun
GOOD_BYE = (
    b'{"goodbye":"this server is shutting down: what is in flight is answered, and then the connection ends;'
    b' connect again for what comes next"}'
)
INTRODUCE = 'say who asks first: {"authorization": "Bearer <API key or token>"}'


class Question(msgspec.Struct, eq=False):
    """One ask of a conversation, until it is answered. It implements `ports.waiting.Asker`."""

    conversation: "Conversation"
    id: bytes  # the client's own, as it was written
    trace: AskTrace | None
    waiting: Waiting | None = None

    def reply(self, reply: Reply) -> None:
        self.conversation.answer(self, reply)


class Conversation:
    """Implements `edge.talk.Talk`."""

    def __init__(
        self,
        inside: Inside,
        reception: Reception,
        credentials: Headers,
        identity: Identity | None,
        traces: AskTraces,
    ) -> None:
        """`credentials`: who asks, as header fields; empty if the client has not said it, or need not. `traces`:
        begins the trace of each ask."""
        self._gateway = inside.gateway
        self._clock = inside.gateway.clock
        self._kinds = inside.gateway.kinds
        self._inputs = inputs_of(inside)
        self._most = inside.limits.max_stream_asks
        self._reception = reception
        self._doorman = reception.doorman
        self._credentials = credentials
        self._identity = identity  # as of the last ask
        self._traces = traces
        # Whether the client has said at any time who asks. Until then next to nothing is read.
        self._was_introduced = self.is_introduced
        self._wire: Wire | None = None
        self._questions: dict[bytes, Question] = {}
        self._slow: asyncio.Task[None] | None = None  # what the next message waits for

    # ---- what the connection asks and tells --------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        return self._slow is None

    @property
    def is_introduced(self) -> bool:
        return self._doorman is None or bool(self._credentials)

    @property
    def tenant(self) -> str:
        return "" if self._identity is None else self._identity.tenant

    @property
    def in_flight(self) -> int:
        return len(self._questions)

    def begin(self, wire: Wire) -> None:
        self._wire = wire

    def say_good_bye(self) -> None:
        if self._wire is not None:
            self._wire.send(GOOD_BYE)

    def left(self) -> None:
        self._wire = None
        if self._slow is not None:
            self._slow.cancel()
        questions, self._questions = self._questions, {}
        for question in questions.values():
            if question.waiting is not None:
                question.waiting.left()
            if question.trace is not None:
                question.trace.ended(0, LEFT)

    def hear(self, message: bytes, *, text: bool) -> None:
        try:
            if not self.is_introduced:
                self._hear_introduction(message)
                return
            if not text:
                raise UnsupportedMedia("a message is JSON, in a frame of text")
            if len(message) > LARGE and not is_plain(message):
                self._do(self._hear_slowly(message))
                return
            ascii_only = message.isascii()
            said = decode_message(message) if ascii_only else decode(MESSAGE, message, is_unicode=False)
            if not said.input:
                self._hear_other(said)
                return
        except Exception as exc:
            self._refuse(id_in(message), in_words(message, exc), self._traces.begin())
            return
        trace = self._trace_of(said)
        name = NOBODY
        try:
            name = name_of(said.id)
            usual = said.client_id is None and said.timeout_ms is None and not said.parameters
            payload = bytes(said.input)
            if (  # what nearly all clients send is understood in a few steps, as at the native door
                usual
                and ascii_only
                and said.callback_url is None
                and payload[0] == QUOTE
                and BACKSLASH not in payload
                and DELETE not in payload
                and said.model in self._kinds
            ):
                self._pose(name, Ask(payload, said.model), trace)
                return
            check_ask(said)
            ask = asked(said, self._inputs.check(payload, said.model, ascii_only=ascii_only))
            self._pose(name, ask, trace)
        except Exception as exc:
            self._refuse(name if name is not NOBODY else id_in(message), in_words(message, exc), trace)

    def _trace_of(self, said: Message, since: float | None = None) -> AskTrace | None:
        """Begin the trace of an ask. `since`: when its message came, if that was a while ago."""
        if self._traces.any or said.traceparent is not None:
            return self._traces.begin(said.traceparent, said.tracestate, since)
        return None

    # ---- messages that are no usual asks -----------------------------------------------------------------

    def _hear_other(self, said: Message) -> None:
        """Take a message without an input."""
        if said.authorization is not None:
            self._introduce(said.authorization)
        elif said.cancel:
            question = self._questions.get(name_of(said.cancel))
            if question is not None and question.waiting is not None:
                question.waiting.withdraw()
        else:
            raise Unacceptable("the field 'input' is missing")

    def _hear_introduction(self, message: bytes) -> None:
        """Take a message of a client that has not said who asks, or whose credential is good no more."""
        try:
            said = decode(MESSAGE, message, is_unicode=False)
            if said.authorization is None:
                raise Unauthorized(INTRODUCE)
        except Exception as exc:
            # Why its form is wrong, a stranger need not know.
            refusal = exc if isinstance(exc, Unauthorized) else Unauthorized(INTRODUCE)
            self._refuse(id_in(message) if self._was_introduced else NOBODY, refusal, None)
            if not self._was_introduced:
                self._hang_up(refusal)
            return
        self._introduce(said.authorization)

    def _introduce(self, authorization: str) -> None:
        if self._doorman is not None:
            self._do(self._introduce_slowly({b"authorization": authorization.encode("utf-8", "replace")}))

    async def _introduce_slowly(self, credentials: Headers) -> None:
        try:
            self._identity = await self._reception.identify(credentials)
            self._credentials, self._was_introduced = credentials, True
        except Exception as exc:
            self._refuse(NOBODY, exc, None, credentials)
            self._hang_up(exc)

    async def _hear_slowly(self, message: bytes) -> None:
        """Take a large message, when it is its turn."""
        came, name = self._clock(), NOBODY
        try:
            said, ascii_only = await self._reception.look(self._identity, read_in_steps(message))
            if not said.input:
                self._hear_other(said)
                return
        except Exception as exc:
            self._refuse(id_in(message), exc, self._traces.begin(since=came))
            return
        trace = self._trace_of(said, came)
        try:
            name = name_of(said.id)
            check_ask(said)
            steps = self._inputs.check_in_steps(bytes(said.input), said.model, ascii_only=ascii_only)
            payload = await self._reception.look(self._identity, steps)
            self._pose(name, asked(said, payload), trace)
        except asyncio.CancelledError:
            if trace is not None:
                trace.ended(0, LEFT)
            raise
        except Exception as exc:
            self._refuse(name if name is not NOBODY else id_in(message), exc, trace)

    def _do(self, work: "Coroutine[Any, Any, None]") -> None:
        """Hear nothing more until this is done."""

        def done(task: "asyncio.Task[None]") -> None:
            if self._slow is task:
                self._slow = None
                if self._wire is not None:
                    self._wire.go_on()

        self._slow = asyncio.get_running_loop().create_task(work)
        self._slow.add_done_callback(done)

    # ---- asks --------------------------------------------------------------------------------------------

    def _pose(self, name: bytes, ask: Ask, trace: AskTrace | None) -> None:
        """Let an ask in, or raise why not."""
        if self._doorman is not None:
            try:
                ask.identity = self._identity = self._identify()
            except KeysWanted:
                self._do(self._pose_slowly(name, ask, trace))
                return
        self._submit(name, ask, trace)

    async def _pose_slowly(self, name: bytes, ask: Ask, trace: AskTrace | None) -> None:
        try:
            ask.identity = self._identity = await self._reception.identify(self._credentials)
            self._submit(name, ask, trace)
        except asyncio.CancelledError:
            if trace is not None:
                trace.ended(0, LEFT)
            raise
        except Exception as exc:
            self._refuse(name, exc, trace)

    def _identify(self) -> Identity:
        """Find out who asks with each ask: a key may have been revoked, or a token have expired."""
        doorman, credentials = self._doorman, self._credentials
        assert doorman is not None
        authorization = credentials.get(b"authorization")
        known = None if authorization is None else doorman.recall(authorization)
        return known or doorman.identify(credentials)

    def _submit(self, name: bytes, ask: Ask, trace: AskTrace | None) -> None:
        questions = self._questions
        if name in questions:
            raise Conflict("an ask with this id is in flight on this connection: choose another")
        if len(questions) >= self._most:
            raise OverQuota(
                f"{self._most} asks are in flight on this connection, as many as limits.max_stream_asks allows:"
                " wait for answers",
                retry_after=0.1,
            )
        if trace is not None:
            trace.sign(ask)
        question = questions[name] = Question(self, name, trace)
        ask.door = WEBSOCKET
        try:
            question.waiting = self._gateway.submit(ask, question)
        except BaseException:
            questions.pop(name, None)
            raise

    # ---- answers -----------------------------------------------------------------------------------------

    def answer(self, question: Question, reply: Reply) -> None:
        self._questions.pop(question.id, None)
        wire = self._wire
        if question.trace is not None:
            failure = reply.failure
            status = 200 if failure is None else status_of(failure)
            question.trace.ended(
                0 if wire is None else status, "" if failure is None else failure.code, reply
            )
        if wire is None:
            return
        execution = reply.execution
        if execution is None:
            assert reply.failure is not None
            start, output, last = "{", failed(reply.failure, reply.request.request_id).body[1:], b""
        else:
            start, output, _ = around_output(reply, execution, self._clock())
            last = b"}"
        wire.send(b"".join((b'{"id":', question.id, b",", start[1:].encode(), output, last)))

    def _refuse(
        self, name: bytes, exc: Exception, trace: AskTrace | None, credentials: Headers | None = None
    ) -> None:
        """Answer with an error. A client whose credential is good no more must say again who asks."""
        if isinstance(exc, Unauthorized | Forbidden) and self._doorman is not None:
            credentials, self._credentials = credentials or self._credentials, NO_HEADERS
        _, failure, request_id = self._reception.refuse(exc, credentials or self._credentials, WEBSOCKET)
        if trace is not None:
            trace.ended(status_of(failure), failure.code, request_id=request_id)
        if self._wire is not None:
            self._wire.send(b"".join((b'{"id":', name, b",", failed(failure, request_id).body[1:])))

    def _hang_up(self, exc: Exception) -> None:
        if self._wire is not None:
            self._wire.hang_up(POLICY, str(exc).encode("ascii", "replace").decode())
