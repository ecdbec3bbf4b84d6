"""The application of the data plane: it leads each request to its door (one way of asking, `door.py`), and is the
one place where errors become answers. `roles/data_plane.py` makes it.

The edge hands it every request (`handle`, `handle_ordinary`), if need be through `cors.py` and `traced.py`. It
finds out who sent the request, has the door read it into asks (one ask: what a client wants, not yet accepted), and
passes these to the gateway. A letter is what a door reads: body, fields and address."""

import asyncio
from collections.abc import Callable, Sequence

from penstock.doors.called_back import call_for, refuse_call
from penstock.doors.charges import Charges
from penstock.doors.door import (
    AskingDoor,
    BecomesTask,
    Call,
    Door,
    Inside,
    Letter,
    TalkingDoor,
    TellingDoor,
    Visit,
)
from penstock.doors.every_answer import failed
from penstock.doors.idempotency import KeyedAnswer, idempotency_key
from penstock.doors.joined import Joined
from penstock.doors.large import LARGE, LargeBodies
from penstock.doors.plain import is_plain
from penstock.doors.ratelimit import refusal_fields
from penstock.doors.reception import Reception
from penstock.doors.results import accepted
from penstock.doors.steps import at_once
from penstock.doors.table import Table
from penstock.doors.wishes import Media, media_of, prefers_task, wanted
from penstock.edge.answer import Answer, with_fields
from penstock.edge.body import Pieces, Whole
from penstock.edge.caller import Caller
from penstock.edge.fields import NO_HEADERS, Headers, request_id, trace
from penstock.edge.heads import POST, Head
from penstock.edge.url import split
from penstock.errors import (
    KeysWanted,
    MethodNotAllowed,
    NoInput,
    OverQuota,
    PenstockError,
    Unacceptable,
    Unauthorized,
    UpgradeRequired,
)
from penstock.ports import Doorman
from penstock.types import Ask, Failure, Identity


class Errand:
    """A request that takes a while, in a task of its own. The task is cancelled if its client leaves."""

    __slots__ = ("task",)

    def __init__(self, task: "asyncio.Task[None]") -> None:
        self.task = task

    def left(self) -> None:
        self.task.cancel()


class DataPlane:
    """Implements `edge.app.App`."""

    def __init__(
        self,
        inside: Inside,
        doors: Sequence[Door],
        make_id: Callable[[], str],
        doorman: Doorman | None = None,
        nowhere: Callable[[Failure, str], Answer] = failed,
        large: LargeBodies | None = None,
    ) -> None:
        """`doorman`: finds out who asks. None: clients need not say who they are. `nowhere`: makes the answer to a
        failed request that led to no door. `large`: the line of large bodies; None: this plane has one of its
        own."""
        self._inside = inside
        self._gateway = inside.gateway
        self._asynchronous = inside.gateway.asynchronous
        self._doorman = doorman
        self._make_id = make_id
        self._nowhere = nowhere
        self._charges: Charges | None = None
        if doorman is not None and inside.limits.count_refused:
            self._charges = Charges(inside.gateway, doorman)
        self._large = large or LargeBodies(inside.gateway.clock)
        self._reception = Reception(inside.gateway, doorman, self._charges, self._large, make_id)
        self._table = Table(doors)
        # The doors that can be found by the URL alone: their paths have no names in them.
        self._asking = {
            door.path.encode(): door
            for door in doors
            if isinstance(door, AskingDoor) and "{" not in door.path
        }

    # ---- what the edge calls, and `path_of`, which `traced.py` calls -----------------------------------------

    def handle(self, caller: Caller, method: bytes, url: bytes, headers: Headers, body: Whole) -> None:
        door = (self._asking.get(url) or self._table.find_by_url(url)) if method == POST else None
        if (
            isinstance(door, AskingDoor)
            and isinstance(body, bytes)
            and (len(body) <= door.small or _is_quick(door, body, headers, url))
            and b"prefer" not in headers
            and b"idempotency-key" not in headers
        ):
            try:
                identity = None if self._doorman is None else self._doorman.identify(headers)
                asks = self._read(door, _letter(door, body, headers, url))
                self._sign(door, asks, identity, headers)
                self._submit(caller, door, asks, _wanted(headers))
                return
            except KeysWanted:
                pass  # to find out who asks takes a while
            except Exception as exc:
                self._failed(caller, door, exc, headers)
                return
        caller.leaving = Errand(asyncio.create_task(self._visit(caller, method, url, headers, body)))

    def handle_ordinary(self, caller: Caller, head: Head, body: bytes) -> None:
        """Handle a POST whose head `edge/heads.py` could read with one pattern: nearly every request comes this
        way. It does the same as `handle`, with fewer steps."""
        door = self._asking.get(head.url)
        if door is None or (len(body) > LARGE and not is_plain(body)):
            self.handle(caller, POST, head.url, head.headers, body)
            return
        try:
            identity, doorman = None, self._doorman
            if doorman is not None:
                if head.authorization is not None and head.api_key is None:
                    identity = doorman.recall(head.authorization)
                identity = identity or doorman.identify(head.credentials)
            ask = door.read_one(body)
            if ask is None:
                asks = self._checked(at_once(door.read(body, NO_HEADERS)))
                self._sign(door, asks, identity, head.headers)
                self._submit(caller, door, asks, Media.JSON)
                return
            render = door.bound_render
            if isinstance(ask, Call):
                render, [ask] = door.render_of(ask, Media.JSON), ask
            ask.door = door.name
            if identity is not None:  # the same as `_sign` and `_submit` do, without their calls
                ask.identity = identity
            if head.request_id is not None:
                ask.request_id = head.request_id.decode()
            if head.traceparent is not None:
                ask.traceparent = head.traceparent.decode()
                if head.tracestate is not None:
                    ask.tracestate = head.tracestate.decode()
            if self._asynchronous and door.tasks is not BecomesTask.NEVER:
                self._submit(caller, door, [ask], Media.JSON)
                return
            caller.render = render
            caller.leaving = self._gateway.submit(ask, caller)
        except KeysWanted:
            self.handle(caller, POST, head.url, head.headers, body)
        except Exception as exc:
            self._failed(caller, door, exc, head.headers)

    def path_of(self, url: bytes) -> str:
        """Returns the path of the door that a URL leads to; empty if it leads to none, or to one for everybody."""
        door = self._asking.get(url) or self._table.find_by_url(url)
        return "" if door is None or door.public else door.path

    def who(self, method: bytes, url: bytes, headers: Headers) -> str:
        """Returns who sends a body, before more of it is taken. If the head alone is enough to refuse the request,
        it is refused now."""
        path, _ = split(url)
        door = self._table.find(path)
        if self._doorman is None or door.public:
            return ""
        try:
            tenant = self._doorman.identify(headers).tenant
        except KeysWanted:
            return ""  # to find out who asks takes a while
        if method == POST and not isinstance(door, TellingDoor):
            media_of(headers, isinstance(door, AskingDoor) and door.others)
        return tenant

    def most_body(self, url: bytes) -> int:
        door = self._table.find_by_url(url)
        return 0 if door is None else door.most_body

    def refuse(self, caller: Caller, exc: Exception, url: bytes, headers: Headers) -> None:
        self._failed(caller, self._table.find_by_url(url), exc, headers)

    # ---- requests that take a while ------------------------------------------------------------------------

    async def _visit(self, caller: Caller, method: bytes, url: bytes, headers: Headers, body: Whole) -> None:
        door: Door | None = None
        try:
            path, query = split(url)
            door = self._table.find(path)
            if method.decode() not in door.methods:
                raise MethodNotAllowed(
                    f"{method.decode()} is not possible here: use {' or '.join(door.methods)}"
                )
            if isinstance(door, TalkingDoor):
                await door.meet(caller, headers, self._reception)
                return
            identity = None if door.public else await self._reception.identify(headers)
            pieces: Sequence[bytes] = ()
            if isinstance(body, Pieces):
                pieces, body = body.pieces, b""
            if isinstance(door, AskingDoor):
                await self._ask(caller, door, identity, _letter(door, body, headers, url))
            elif isinstance(door, TellingDoor):
                tenant = "" if identity is None else identity.tenant
                visit = Visit(
                    method.decode(),
                    path,
                    query,
                    identity,
                    body,
                    headers,
                    pieces,
                    lambda answer: caller.begin(answer, tenant),
                )
                await door.tell(visit, lambda answer: caller.respond(answer, visit.tenant))
        except Exception as exc:
            self._failed(caller, door, exc, headers)

    async def _ask(self, caller: Caller, door: AskingDoor, identity: Identity | None, letter: Letter) -> None:
        headers = letter.headers
        if len(letter.body) > door.small and not door.is_quick(letter):
            asks = self._checked(await self._reception.look(identity, door.read_letter(letter)))
        else:
            asks = self._read(door, letter)
        self._sign(door, asks, identity, headers)
        key, preferred = idempotency_key(headers), prefers_task(headers)
        if key is not None and len(asks) > 1:
            raise Unacceptable(
                f"this request holds {len(asks)} inputs, and an Idempotency-Key names one: send them one by one,"
                " or without the key"
            )
        if self._becomes_task(door, asks, preferred):
            await self._accept_task(caller, asks[0], key, preferred=preferred is not None)
        elif key is None:
            self._send(caller, door, asks, _wanted(headers))
        else:
            refuse_call(asks)
            render = door.render_of(asks, _wanted(headers))
            caller.leaving = self._gateway.submit_keyed(asks[0], key, KeyedAnswer(caller, render))

    # ---- asks ----------------------------------------------------------------------------------------------

    def _read(self, door: AskingDoor, letter: Letter) -> Sequence[Ask]:
        """Read a small body, at once."""
        if letter.media is Media.JSON and (ask := door.read_one(letter.body)) is not None:
            return ask if isinstance(ask, Call) else [ask]
        return self._checked(at_once(door.read_letter(letter)))

    def _checked(self, asks: Sequence[Ask]) -> Sequence[Ask]:
        if not asks:
            raise NoInput("there is no input in the request")
        self._inside.check_number(len(asks))
        return asks

    def _sign(
        self, door: AskingDoor, asks: Sequence[Ask], identity: Identity | None, headers: Headers
    ) -> None:
        """Put the door and what the head says (identity, id, trace) into each ask. Several asks of one call have
        the same id."""
        asked, (parent, state) = request_id(headers), trace(headers)
        if asked is None and len(asks) > 1:
            asked = self._make_id()
        for ask in asks:
            ask.door, ask.identity, ask.request_id = door.name, identity, asked
            ask.traceparent, ask.tracestate = parent, state

    def _submit(self, caller: Caller, door: AskingDoor, asks: Sequence[Ask], wanted: Media) -> None:
        """Submit asks whose head has neither Prefer nor Idempotency-Key."""
        if self._becomes_task(door, asks, None):
            caller.leaving = Errand(asyncio.create_task(self._become_task(caller, door, asks[0])))
        else:
            self._send(caller, door, asks, wanted)

    def _send(self, caller: Caller, door: AskingDoor, asks: Sequence[Ask], wanted: Media) -> None:
        """Send asks to the gateway, which replies to the caller, or to a `Joined` for several asks. Nothing here
        waits for the reply."""
        refuse_call(asks)
        if len(asks) == 1:
            caller.render = door.render_of(asks, wanted)
            caller.leaving = self._gateway.submit(asks[0], caller)
        else:
            answer = asks.answer if isinstance(asks, Call) else door.answer
            caller.leaving = self._gateway.submit_all(
                asks, Joined(caller, answer, door.failure, self._gateway.clock)
            )

    # ---- tasks ---------------------------------------------------------------------------------------------

    def _becomes_task(self, door: AskingDoor, asks: Sequence[Ask], preferred: bool | None) -> bool:
        """Whether the asks become a task. `preferred`: what the client says in Prefer, which goes before the
        model's setting; None: nothing."""
        if door.tasks is BecomesTask.NEVER or len(asks) > 1:
            return False
        if preferred is None and door.tasks is BecomesTask.AS_MODEL:
            return asks[0].model in self._asynchronous
        return bool(preferred)

    async def _become_task(self, caller: Caller, door: AskingDoor, ask: Ask) -> None:
        try:
            await self._accept_task(caller, ask, None, preferred=False)
        except Exception as exc:
            self._failed(
                caller,
                door,
                exc,
                {} if ask.request_id is None else {b"x-request-id": ask.request_id.encode()},
            )

    async def _accept_task(self, caller: Caller, ask: Ask, key: str | None, *, preferred: bool) -> None:
        """Accept an ask as a task. `preferred`: the client has asked for one."""
        promise = call_for(ask, self._inside.webhooks)
        if key is None:
            task, again = await self._gateway.submit_task(ask), False
        else:
            task, again = await self._gateway.submit_keyed_task(ask, key)
        if not again:
            promise(task)
        caller.respond(accepted(task, preferred=preferred, again=again))

    # ---- endings -------------------------------------------------------------------------------------------

    def _failed(self, caller: Caller, door: Door | None, exc: Exception, headers: Headers) -> None:
        """Answer an error, in the shape of the door if there is one. No other place does so."""
        # A refused request is charged too; if that exceeds the quota, the client is told OverQuota instead.
        exc, failure, asked = self._reception.refuse(exc, headers, "" if door is None else door.name)
        answer = self._nowhere(failure, asked) if door is None else door.failure(failure, asked)
        if isinstance(exc, MethodNotAllowed) and door is not None:
            answer = with_fields(answer, [("allow", ", ".join(door.methods))])
        elif isinstance(exc, OverQuota):
            answer = with_fields(answer, refusal_fields(exc))
        elif isinstance(exc, Unauthorized):
            answer = with_fields(answer, [("www-authenticate", "Bearer")])
        elif isinstance(exc, UpgradeRequired):
            answer = with_fields(answer, [("sec-websocket-version", "13")])
        answer.code = failure.code
        caller.respond(answer)


def _letter(door: AskingDoor, body: bytes, headers: Headers, url: bytes) -> Letter:
    path, query = split(url)
    return Letter(body, headers, media_of(headers, door.others), path, query)


def _is_quick(door: AskingDoor, body: bytes, headers: Headers, url: bytes) -> bool:
    """Whether a body is read at once: it needs little looking at, or is refused before it is looked at."""
    try:
        return door.is_quick(_letter(door, body, headers, url))
    except PenstockError:
        return True


def _wanted(headers: Headers) -> Media:
    return wanted(headers) if b"accept" in headers else Media.JSON
