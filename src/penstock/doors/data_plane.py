"""The application of the data plane: a table of routes, and the one place where errors become responses."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import msgspec

from penstock.doors import answers
from penstock.doors.about import About
from penstock.doors.charges import Charges
from penstock.doors.idempotency import HEADER, REPLAYED, KeyedAnswer, idempotency_key
from penstock.doors.large import LARGE, LargeBodies
from penstock.doors.ratelimit import quota_headers
from penstock.doors.schema import Reader, check_type, request_id
from penstock.doors.steps import Steps
from penstock.doors.visit import Handler, Visit, prefers_task, read_query, split
from penstock.edge.caller import Caller as Connection
from penstock.edge.heads import POST, Head, Headers
from penstock.errors import (
    KeysWanted,
    MethodNotAllowed,
    NotFound,
    OverQuota,
    PenstockError,
    Unacceptable,
    Unauthorized,
)
from penstock.ports import Doorman, Gateway, Task
from penstock.types import Ask, Failure, Identity

log = logging.getLogger("penstock.doors")

INFERENCE = b"/v1/inference"  # most requests by far: it does not even wait for the table
RESULT = "/v1/result/"
LARGE_RESULT = 128 * 1024  # bytes of a result that waits for its turn
X_REQUEST_ID = b"x-request-id"

Read = Callable[[bytes, Headers], Ask]
ReadInSteps = Callable[[bytes, Headers], Steps[Ask]]


@dataclass(frozen=True, slots=True)
class HttpLimits:
    max_body: int = 2**20
    max_depth: int = 64
    control_characters: str = "refuse"
    max_long_poll: float = 30.0
    count_refused: bool = True


class Errand:
    """A handler at work; it has no point once its client has gone."""

    __slots__ = ("task",)

    def __init__(self, task: "asyncio.Task[None]") -> None:
        self.task = task

    def left(self) -> None:
        self.task.cancel()


class DataPlane:
    def __init__(
        self,
        gateway: Gateway,
        limits: HttpLimits,
        make_id: Callable[[], str],
        doorman: Doorman | None = None,
        not_ready: Callable[[], str] = lambda: "",
    ) -> None:
        """Without a doorman nobody is asked who they are. `not_ready`: why no traffic should come, or nothing."""
        self._gateway = gateway
        self._asynchronous = gateway.asynchronous
        self._doorman = doorman
        self._limits = limits
        self._make_id = make_id
        self._charges: Charges | None = None
        if doorman is not None and limits.count_refused:
            self._charges = Charges(gateway, doorman)
        self._large = LargeBodies(gateway.clock)
        self._large_results = LargeBodies(gateway.clock)
        self._reader = Reader(
            gateway, max_depth=limits.max_depth, control_characters=limits.control_characters
        )
        self._about = About(
            gateway,
            max_body=limits.max_body,
            control_characters=limits.control_characters,
            secured=doorman is not None,
            not_ready=not_ready,
        )
        self._routes: dict[str, dict[str, Handler]] = {
            INFERENCE.decode(): {"POST": self._inference},
            "/api/inference": {"POST": self._short_inference},
            "/v1/models": {"GET": self._models},
            **self._about.open_routes,
        }
        self._result_routes: dict[str, Handler] = {"GET": self._result, "DELETE": self._cancel}

    def handle(
        self, connection: Connection, method: bytes, url: bytes, headers: Headers, body: bytes
    ) -> None:
        if (
            url == INFERENCE
            and method == b"POST"
            and len(body) <= LARGE
            and b"prefer" not in headers
            and HEADER not in headers
        ):
            try:
                identity = None if self._doorman is None else self._doorman.identify(headers)
                if headers.get(b"content-type") != b"application/json" or b"content-encoding" in headers:
                    check_type(headers)
                ask = self._reader.full(body, headers)
                ask.identity = identity
                self._submit(connection, ask)
                return
            except KeysWanted:
                pass  # to be found out, which takes a while
            except Exception as exc:
                self._failed(connection, exc, headers)
                return
        errand = Errand(asyncio.create_task(self._visit(connection, method, url, headers, body)))
        connection.leaving = errand

    def handle_ordinary(self, connection: Connection, head: Head, body: bytes) -> None:
        """Nearly every request comes this way."""
        if head.url != INFERENCE or len(body) > LARGE:
            self.handle(connection, POST, head.url, head.headers, body)
            return
        try:
            doorman, identity = self._doorman, head.identity
            if doorman is not None and (
                identity is None
                or head.generation != doorman.generation
                or (identity.expires < inf and identity.expires <= doorman.now())
            ):
                identity = head.identity = doorman.identify(head.credentials)
                head.generation = doorman.generation
            ask = self._reader.plain(body)
            ask.identity = identity
            if head.request_id is not None:
                ask.request_id = head.request_id.decode()
            if head.traceparent is not None:
                ask.traceparent = head.traceparent.decode()
                if head.tracestate is not None:
                    ask.tracestate = head.tracestate.decode()
            if self._asynchronous:
                self._submit(connection, ask)
                return
            connection.render = answers.full_answer  # `_submit`, spelt out for the usual case
            connection.leaving = self._gateway.submit(ask, connection)
        except KeysWanted:
            self.handle(connection, POST, head.url, head.headers, body)
        except Exception as exc:
            self._failed(connection, exc, head.headers)

    def who(self, method: bytes, url: bytes, headers: Headers) -> str:
        """Before more of a body is taken: whatever the head alone can be refused for, it is refused for now."""
        path, _ = split(url)
        self._find_routes(path)
        if self._doorman is None or path in self._about.open_routes:
            return ""
        try:
            tenant = self._doorman.identify(headers).tenant
        except KeysWanted:
            return ""  # to be found out, which takes a while
        if method == b"POST":
            check_type(headers)
        return tenant

    def refuse(self, connection: Connection, exc: Exception, headers: Headers) -> None:
        self._failed(connection, exc, headers)

    async def _visit(
        self, connection: Connection, method: bytes, url: bytes, headers: Headers, body: bytes
    ) -> None:
        routes: dict[str, Handler] = {}
        try:
            visit = Visit(*split(url), headers, body)
            routes = self._find_routes(visit.path)
            handler = routes.get(method.decode())
            if handler is None:
                raise MethodNotAllowed(f"{method.decode()} is not possible here: use {' or '.join(routes)}")
            await handler(connection, visit)
        except Exception as exc:
            self._failed(connection, exc, headers, allow=", ".join(routes))

    def _find_routes(self, path: str) -> dict[str, Handler]:
        routes = self._routes.get(path)
        if routes is None:
            if not path.startswith(RESULT) or len(path) == len(RESULT) or "/" in path[len(RESULT) :]:
                raise NotFound(f"nothing is served at {path[:100]!r}; see /docs")
            routes = self._result_routes
        return routes

    # ---- inference ---------------------------------------------------------------------------------------

    def _submit(self, connection: Connection, ask: Ask) -> None:
        """The hot path: the answer is `Connection.reply`, and nothing here waits for it."""
        if self._asynchronous and ask.model in self._asynchronous:
            connection.leaving = Errand(asyncio.create_task(self._become_task(connection, ask)))
            return
        connection.render = answers.full_answer
        connection.leaving = self._gateway.submit(ask, connection)

    async def _become_task(self, connection: Connection, ask: Ask) -> None:
        try:
            await self._accept_task(connection, ask, None, preferred=False)
        except Exception as exc:
            self._failed(
                connection, exc, {} if ask.request_id is None else {X_REQUEST_ID: ask.request_id.encode()}
            )

    async def _inference(self, connection: Connection, visit: Visit) -> None:
        """A model that responds later is waited for all the same by a client that says so."""
        ask = await self._read(visit, self._reader.full, self._reader.full_in_steps)
        preferred = prefers_task(visit.headers)
        wants_task = ask.model in self._asynchronous if preferred is None else preferred
        await self._infer(connection, visit, ask, answers.full_answer, wants_task, preferred is not None)

    async def _short_inference(self, connection: Connection, visit: Visit) -> None:
        """The short form is answered with the output, whatever the model, unless the client wants a task."""
        ask = await self._read(visit, self._reader.short, self._reader.short_in_steps)
        await self._infer(
            connection, visit, ask, answers.short_answer, bool(prefers_task(visit.headers)), True
        )

    async def _read(self, visit: Visit, read: Read, read_in_steps: ReadInSteps) -> Ask:
        identity = await self._identify(visit)
        check_type(visit.headers)
        if len(visit.body) > LARGE:
            steps = self._within_quota(identity, read_in_steps(visit.body, visit.headers))
            ask = await self._large.look("" if identity is None else identity.tenant, steps)
        else:
            ask = read(visit.body, visit.headers)
        ask.identity = identity
        return ask

    def _within_quota(self, identity: Identity | None, steps: Steps[Ask]) -> Steps[Ask]:
        """Looked at when its turn has come: those before it may have used up the quota."""
        if identity is not None and self._charges is not None:
            self._charges.check(identity)
        return (yield from steps)

    async def _infer(
        self,
        connection: Connection,
        visit: Visit,
        ask: Ask,
        render: answers.Render,
        wants_task: bool,
        preferred: bool,
    ) -> None:
        key = idempotency_key(visit.headers)
        if wants_task:
            await self._accept_task(connection, ask, key, preferred=preferred)
            return
        connection.render = render
        if key is None:
            connection.leaving = self._gateway.submit(ask, connection)
        else:
            connection.leaving = self._gateway.submit_keyed(ask, key, KeyedAnswer(connection))

    async def _identify(self, visit: Visit) -> Identity | None:
        return None if self._doorman is None else await self._doorman.identify_slowly(visit.headers)

    async def _models(self, connection: Connection, visit: Visit) -> None:
        await self._identify(visit)
        await self._about.models(connection, visit)

    # ---- tasks -------------------------------------------------------------------------------------------

    async def _accept_task(
        self, connection: Connection, ask: Ask, key: str | None, *, preferred: bool
    ) -> None:
        """`preferred`: the client has asked for it."""
        if key is None:
            task, again = await self._gateway.submit_task(ask), False
        else:
            task, again = await self._gateway.submit_keyed_task(ask, key)
        body = msgspec.json.encode({"task_id": task.id, "status": "PENDING"})
        headers = [
            answers.JSON,
            ("location", f"{RESULT}{task.id}"),
            ("x-request-id", task.id),
        ]
        if preferred:
            headers.append(("preference-applied", "respond-async"))
        if again:
            headers.append(REPLAYED)
        connection.respond(202, headers, body)

    async def _result(self, connection: Connection, visit: Visit) -> None:
        identity = await self._identify(visit)
        query = read_query(visit.query, "wait_ms", "client_id")
        task = await self._find(visit, query, identity)
        wait = query.get("wait_ms")
        if wait is not None:
            if not (wait.isascii() and wait.isdigit() and len(wait) < 10):
                raise Unacceptable("'wait_ms' must be a whole number of milliseconds")
            await task.wait(min(int(wait) / 1e3, self._limits.max_long_poll))
        await self._respond_task(connection, task, identity)

    async def _cancel(self, connection: Connection, visit: Visit) -> None:
        identity = await self._identify(visit)
        task = await self._find(visit, read_query(visit.query, "client_id"), identity)
        await task.cancel()
        await self._respond_task(connection, task, identity)

    async def _find(self, visit: Visit, query: dict[str, str], identity: Identity | None) -> Task:
        return await self._gateway.find_task(visit.path[len(RESULT) :], query.get("client_id"), identity)

    async def _respond_task(self, connection: Connection, task: Task, identity: Identity | None) -> None:
        """Large results are rendered one at a time: who asks for one need not have sent anything large."""
        tenant, reply = "" if identity is None else identity.tenant, task.answer
        headers = [answers.JSON, ("x-request-id", task.id)]
        if reply is not None and len(reply.output) > LARGE_RESULT:
            async with self._large_results.turn(tenant):
                connection.respond(200, headers, answers.task(task), tenant)
        else:
            connection.respond(200, headers, answers.task(task), tenant)

    # ---- endings -----------------------------------------------------------------------------------------

    def _failed(self, connection: Connection, exc: Exception, headers: Headers, allow: str = "") -> None:
        """The one place where an error becomes a response."""
        if self._charges is not None:
            exc = self._charges.after(exc, headers)
        if isinstance(exc, PenstockError):
            failure, about = Failure.of(exc), exc
        else:
            log.error("a request failed inside the server", exc_info=exc)
            failure, about = Failure("INTERNAL", "the server failed; its log says how"), PenstockError("")
        asked = request_id(headers.get(X_REQUEST_ID)) or self._make_id()
        self._gateway.count(about.model, failure.code, asked, about.tenant)
        status, said, body = answers.error(failure, asked)
        if isinstance(exc, MethodNotAllowed):
            said.append(("allow", allow))
        elif isinstance(exc, OverQuota):
            said += quota_headers(exc)
        elif isinstance(exc, Unauthorized):
            said.append(("www-authenticate", "Bearer"))
        connection.respond(status, said, body)
