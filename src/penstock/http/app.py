"""The application of the data plane: a table of routes, and the one place where errors become responses."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf
from typing import NamedTuple
from urllib.parse import parse_qs, unquote_to_bytes

import msgspec

from penstock.errors import (
    KeysWanted,
    Malformed,
    MethodNotAllowed,
    NotFound,
    OverQuota,
    PenstockError,
    Unacceptable,
    Unauthorized,
)
from penstock.http import answers
from penstock.http.caller import Caller as Connection
from penstock.http.heads import Head, Headers
from penstock.http.idempotency import HEADER, REPLAYED, KeyedAnswer, idempotency_key
from penstock.http.openapi import DOCS_PAGE, openapi_document
from penstock.http.ratelimit import quota_headers
from penstock.http.schema import Reader, check_type, is_plain, request_id
from penstock.ports import Doorman, Gateway, Task
from penstock.types import Ask, Failure, Identity

log = logging.getLogger("penstock.http")

Parse = Callable[[bytes, Headers], Ask]

INFERENCE = b"/v1/inference"  # most requests by far: it does not even wait for the table
RESULT = "/v1/result/"
PREFER_ASYNC = b"respond-async"


class Visit(NamedTuple):
    """A request that need not be fast."""

    path: str
    query: str
    headers: Headers
    body: bytes


Handler = Callable[[Connection, Visit], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class HttpLimits:
    max_body: int = 2**20
    max_depth: int = 64
    control_characters: str = "refuse"
    max_long_poll: float = 30.0


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
    ) -> None:
        """Without a doorman nobody is asked who they are."""
        self._gateway = gateway
        self._doorman = doorman
        self._limits = limits
        self._make_id = make_id
        self._reader = Reader(
            gateway, max_depth=limits.max_depth, control_characters=limits.control_characters
        )
        self._routes: dict[str, dict[str, Handler]] = {
            INFERENCE.decode(): {"POST": self._inference},
            "/api/inference": {"POST": self._short_inference},
            "/openapi.json": {"GET": self._serve_openapi},
            "/docs": {"GET": self._serve_docs},
        }
        self._result_routes: dict[str, Handler] = {"GET": self._result, "DELETE": self._cancel}

    def handle(
        self, connection: Connection, method: bytes, url: bytes, headers: Headers, body: bytes
    ) -> None:
        if url == INFERENCE and method == b"POST" and b"prefer" not in headers and HEADER not in headers:
            try:
                identity = None if self._doorman is None else self._doorman.identify(headers)
                self._submit(connection, self._reader.full, answers.full_answer, headers, body, identity)
                return
            except KeysWanted:
                pass  # to be found out, which takes a while
            except Exception as exc:
                self._failed(connection, exc, headers)
                return
        errand = Errand(asyncio.create_task(self._visit(connection, method, url, headers, body)))
        connection.leaving = errand

    def handle_known(self, connection: Connection, head: Head, body: bytes) -> None:
        """What can be told from the head alone is told once: nearly every request comes this way."""
        if not head.plain and not self._is_plain(head):
            self.handle(connection, head.method, head.url, head.headers, body)
            return
        try:
            doorman, identity = self._doorman, head.identity
            if doorman is not None and (
                identity is None
                or head.generation != doorman.generation
                or (identity.expires < inf and identity.expires <= doorman.now())
            ):
                identity = head.identity = doorman.identify(head.headers)
                head.generation = doorman.generation
            ask = self._reader.plain(body)
            ask.identity = identity
            connection.render = answers.full_answer
            connection.leaving = self._gateway.submit(ask, connection)
        except KeysWanted:
            self.handle(connection, head.method, head.url, head.headers, body)
        except Exception as exc:
            self._failed(connection, exc, head.headers)

    def _is_plain(self, head: Head) -> bool:
        if head.plain is None:
            head.plain = head.url == INFERENCE and is_plain(head.headers)
        return head.plain

    def refuse(self, connection: Connection, exc: Exception) -> None:
        self._failed(connection, exc, {})

    async def _visit(
        self, connection: Connection, method: bytes, url: bytes, headers: Headers, body: bytes
    ) -> None:
        routes: dict[str, Handler] = {}
        try:
            visit = Visit(*_split(url), headers, body)
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

    def _submit(
        self,
        connection: Connection,
        parse: Parse,
        render: answers.Render,
        headers: Headers,
        body: bytes,
        identity: Identity | None,
    ) -> None:
        """The hot path: understand, submit. The answer is `Connection.reply`; nothing here waits for it."""
        if headers.get(b"content-type") != b"application/json" or b"content-encoding" in headers:
            check_type(headers)
        ask = parse(body, headers)
        ask.identity = identity
        connection.render = render
        connection.leaving = self._gateway.submit(ask, connection)

    async def _inference(self, connection: Connection, visit: Visit) -> None:
        await self._infer(connection, visit, self._reader.full, answers.full_answer)

    async def _short_inference(self, connection: Connection, visit: Visit) -> None:
        await self._infer(connection, visit, self._reader.short, answers.short_answer)

    async def _infer(
        self, connection: Connection, visit: Visit, parse: Parse, render: answers.Render
    ) -> None:
        identity = await self._identify(visit)
        key = idempotency_key(visit.headers)
        wants_task = PREFER_ASYNC in visit.headers.get(b"prefer", b"").lower()
        if key is None and not wants_task:
            self._submit(connection, parse, render, visit.headers, visit.body, identity)
            return
        check_type(visit.headers)
        ask = parse(visit.body, visit.headers)
        ask.identity = identity
        if wants_task:
            await self._accept_task(connection, ask, key)
        elif key is not None:
            connection.render = render
            connection.leaving = self._gateway.submit_keyed(ask, key, KeyedAnswer(connection))

    async def _identify(self, visit: Visit) -> Identity | None:
        return None if self._doorman is None else await self._doorman.identify_slowly(visit.headers)

    # ---- tasks -------------------------------------------------------------------------------------------

    async def _accept_task(self, connection: Connection, ask: Ask, key: str | None) -> None:
        if key is None:
            task, again = await self._gateway.submit_task(ask), False
        else:
            task, again = await self._gateway.submit_keyed_task(ask, key)
        body = msgspec.json.encode({"task_id": task.id, "status": "PENDING"})
        headers = [
            answers.JSON,
            ("location", f"{RESULT}{task.id}"),
            ("preference-applied", "respond-async"),
            ("x-request-id", task.id),
        ]
        connection.respond(202, [*headers, REPLAYED] if again else headers, body)

    async def _result(self, connection: Connection, visit: Visit) -> None:
        identity = await self._identify(visit)
        query = _query(visit.query, "wait_ms", "client_id")
        task = await self._find(visit, query, identity)
        wait = query.get("wait_ms")
        if wait is not None:
            if not (wait.isascii() and wait.isdigit() and len(wait) < 10):
                raise Unacceptable("'wait_ms' must be a whole number of milliseconds")
            await task.wait(min(int(wait) / 1e3, self._limits.max_long_poll))
        self._respond_task(connection, task)

    async def _cancel(self, connection: Connection, visit: Visit) -> None:
        identity = await self._identify(visit)
        task = await self._find(visit, _query(visit.query, "client_id"), identity)
        await task.cancel()
        self._respond_task(connection, task)

    async def _find(self, visit: Visit, query: dict[str, str], identity: Identity | None) -> Task:
        return await self._gateway.find_task(visit.path[len(RESULT) :], query.get("client_id"), identity)

    def _respond_task(self, connection: Connection, task: Task) -> None:
        connection.respond(200, [answers.JSON, ("x-request-id", task.id)], answers.task(task))

    # ---- documents ---------------------------------------------------------------------------------------

    async def _serve_openapi(self, connection: Connection, visit: Visit) -> None:
        limits = self._limits
        document = openapi_document(
            self._gateway.models,
            limits.max_body,
            limits.control_characters,
            secured=self._doorman is not None,
            parameters=self._gateway.parameters,
        )
        connection.respond(200, [answers.JSON], msgspec.json.encode(document))

    async def _serve_docs(self, connection: Connection, visit: Visit) -> None:
        connection.respond(200, [("content-type", "text/html; charset=utf-8")], DOCS_PAGE)

    # ---- endings -----------------------------------------------------------------------------------------

    def _failed(self, connection: Connection, exc: Exception, headers: Headers, allow: str = "") -> None:
        """The one place where an error becomes a response."""
        if isinstance(exc, PenstockError):
            failure, about = Failure(exc.code, exc.message, retry_after=exc.retry_after), exc
        else:
            log.error("a request failed inside the server", exc_info=exc)
            failure, about = Failure("INTERNAL", "the server failed; its log says how"), PenstockError("")
        asked = request_id(headers.get(b"x-request-id")) or self._make_id()
        self._gateway.count(about.model, failure.code, asked, about.tenant)
        status, said, body = answers.error(failure, asked)
        if isinstance(exc, MethodNotAllowed):
            said.append(("allow", allow))
        elif isinstance(exc, OverQuota):
            said += quota_headers(exc)
        elif isinstance(exc, Unauthorized):
            said.append(("www-authenticate", "Bearer"))
        connection.respond(status, said, body)


def _split(url: bytes) -> tuple[str, str]:
    """Path and query; a proxy may ask for the whole address."""
    if not url.startswith(b"/"):
        _, _, address = url.partition(b"://")
        url = b"/" + address.partition(b"/")[2]
    path, _, query = url.partition(b"?")
    try:
        return unquote_to_bytes(path).decode(), query.decode("ascii")
    except UnicodeDecodeError:
        raise Malformed("the address is not in UTF-8") from None


def _query(text: str, *known: str) -> dict[str, str]:
    try:
        pairs = parse_qs(text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=16)
    except ValueError:
        raise Malformed("the query is not well formed") from None
    for name, values in pairs.items():
        if name not in known:
            raise Unacceptable(f"unknown query parameter {name[:50]!r}; known here: {', '.join(known)}")
        if len(values) > 1:
            raise Unacceptable(f"the query parameter {name!r} is given more than once")
    return {name: values[0] for name, values in pairs.items()}
