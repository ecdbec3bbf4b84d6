"""The RSGI application: a table of routes, and the one place where errors become responses."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import parse_qs

import msgspec

from penstock.errors import Malformed, MethodNotAllowed, NotFound, PenstockError, Unacceptable
from penstock.http import answers
from penstock.http.body import Bodies
from penstock.http.openapi import DOCS_PAGE, openapi_document
from penstock.http.rsgi import Exchange, Headers, RequestHeaders, Scope
from penstock.http.schema import Reader, request_id
from penstock.ports import Gateway, Task, Watch
from penstock.types import Ask, Execution, Failure, Reply

log = logging.getLogger("penstock.http")

Handler = Callable[[Scope, Exchange], Awaitable[None]]
Parse = Callable[[bytes, RequestHeaders], Ask]
Answer = Callable[[Reply, Execution, float], tuple[Headers, bytes]]

INFERENCE = "/v1/inference"  # most requests by far: it does not even wait for the table
RESULT = "/v1/result/"


class Connection:
    """A client that waits for its answer on the connection it asked on."""

    __slots__ = ("_answer", "_clock", "_exchange")

    def __init__(self, exchange: Exchange, answer: Answer, clock: Callable[[], float]) -> None:
        self._exchange = exchange
        self._answer = answer
        self._clock = clock

    def reply(self, reply: Reply) -> None:
        execution = reply.execution
        if execution is None:
            assert reply.failure is not None
            self._exchange.response_bytes(*answers.error(reply.failure, reply.request.request_id))
        else:
            self._exchange.response_bytes(200, *self._answer(reply, execution, self._clock()))

    def watch(self) -> Watch:
        return self._exchange.client_disconnect()


@dataclass(frozen=True, slots=True)
class HttpLimits:
    max_body: int = 2**20
    body_seconds: float = 5.0
    max_depth: int = 64
    control_characters: str = "refuse"
    max_long_poll: float = 30.0


class DataPlane:
    def __init__(self, gateway: Gateway, limits: HttpLimits, make_id: Callable[[], str]) -> None:
        self._gateway = gateway
        self._limits = limits
        self._make_id = make_id
        self._bodies = Bodies(gateway.clock, limits.max_body, limits.body_seconds)
        self._reader = Reader(
            gateway, max_depth=limits.max_depth, control_characters=limits.control_characters
        )
        document = openapi_document(gateway.models, limits.max_body, limits.control_characters)
        self._openapi = msgspec.json.encode(document)
        self._routes: dict[str, dict[str, Handler]] = {
            INFERENCE: {"POST": self._inference},
            "/api/inference": {"POST": self._short_inference},
            "/openapi.json": {"GET": self._guarded(self._serve_openapi)},
            "/docs": {"GET": self._guarded(self._serve_docs)},
        }
        self._result_routes: dict[str, Handler] = {
            "GET": self._guarded(self._result),
            "DELETE": self._guarded(self._cancel),
        }

    def __rsgi__(self, scope: Scope, exchange: Exchange) -> Awaitable[None]:
        """Gives the handler's own coroutine, without one around it."""
        if scope.path == INFERENCE and scope.method == "POST":
            return self._run(scope, exchange, self._reader.full, answers.full_answer)
        try:
            return self._handler(scope)(scope, exchange)
        except PenstockError as exc:
            return self._refuse_soon(scope, exchange, exc)

    async def _refuse_soon(self, scope: Scope, exchange: Exchange, exc: PenstockError) -> None:
        self._failed(scope, exchange, exc)

    def _handler(self, scope: Scope) -> Handler:
        path = scope.path
        routes = self._routes.get(path)
        if routes is None:
            if not path.startswith(RESULT) or len(path) == len(RESULT) or "/" in path[len(RESULT) :]:
                raise NotFound(f"nothing is served at {path[:100]!r}; see /docs")
            routes = self._result_routes
        handler = routes.get(scope.method)
        if handler is None:
            raise MethodNotAllowed(f"{scope.method} is not possible here: use {' or '.join(routes)}")
        return handler

    # ---- inference ---------------------------------------------------------------------------------------

    def _inference(self, scope: Scope, exchange: Exchange) -> Awaitable[None]:
        return self._run(scope, exchange, self._reader.full, answers.full_answer)

    def _short_inference(self, scope: Scope, exchange: Exchange) -> Awaitable[None]:
        return self._run(scope, exchange, self._reader.short, answers.short_answer)

    async def _run(self, scope: Scope, exchange: Exchange, parse: Parse, answer: Answer) -> None:
        """The hot path: read, understand, submit. The answer is `Connection.reply`; nothing here waits for it."""
        gateway = self._gateway
        try:
            headers = scope.headers
            pending = self._bodies.start(headers, exchange)
            try:
                body = await pending
            except BaseException as exc:
                refused = self._bodies.broken(pending, exc)
                if refused is None:
                    raise
                self._failed(scope, exchange, refused)
                # The error's traceback holds this frame: what holds the error must not be held by it, or the
                # connection would stay open until the garbage collector comes by.
                del pending, refused
                return
            self._bodies.done(pending)
            ask = parse(body, headers)
            prefer = headers.get("prefer")
            if prefer is not None and "respond-async" in prefer.lower():
                self._accept_task(ask, exchange)
                return
            gateway.submit(ask, Connection(exchange, answer, gateway.clock))
        except Exception as exc:
            self._failed(scope, exchange, exc)

    # ---- tasks -------------------------------------------------------------------------------------------

    def _accept_task(self, ask: Ask, exchange: Exchange) -> None:
        task = self._gateway.submit_task(ask)
        body = msgspec.json.encode({"task_id": task.id, "status": "PENDING"})
        headers = [
            answers.JSON,
            ("location", f"{RESULT}{task.id}"),
            ("preference-applied", "respond-async"),
            ("x-request-id", task.id),
        ]
        exchange.response_bytes(202, headers, body)

    async def _result(self, scope: Scope, exchange: Exchange) -> None:
        query = _query(scope.query_string, "wait_ms", "client_id")
        task = self._find(scope, query)
        wait = query.get("wait_ms")
        if wait is not None:
            if not (wait.isascii() and wait.isdigit() and len(wait) < 10):
                raise Unacceptable("'wait_ms' must be a whole number of milliseconds")
            await task.wait(min(int(wait) / 1e3, self._limits.max_long_poll))
        self._respond_task(task, exchange)

    async def _cancel(self, scope: Scope, exchange: Exchange) -> None:
        task = self._find(scope, _query(scope.query_string, "client_id"))
        task.cancel()
        await task.wait(0)
        self._respond_task(task, exchange)

    def _find(self, scope: Scope, query: dict[str, str]) -> Task:
        return self._gateway.find_task(scope.path[len(RESULT) :], query.get("client_id"))

    def _respond_task(self, task: Task, exchange: Exchange) -> None:
        exchange.response_bytes(200, [answers.JSON, ("x-request-id", task.id)], answers.task(task))

    # ---- documents ---------------------------------------------------------------------------------------

    async def _serve_openapi(self, scope: Scope, exchange: Exchange) -> None:
        exchange.response_bytes(200, [answers.JSON], self._openapi)

    async def _serve_docs(self, scope: Scope, exchange: Exchange) -> None:
        exchange.response_bytes(200, [("content-type", "text/html; charset=utf-8")], DOCS_PAGE)

    # ---- endings -----------------------------------------------------------------------------------------

    def _guarded(self, handler: Handler) -> Handler:
        async def guarded(scope: Scope, exchange: Exchange) -> None:
            try:
                await handler(scope, exchange)
            except Exception as exc:
                self._failed(scope, exchange, exc)

        return guarded

    def _failed(self, scope: Scope, exchange: Exchange, exc: Exception) -> None:
        """The one place where an error becomes a response."""
        if isinstance(exc, PenstockError):
            failure = Failure(exc.code, exc.message, retry_after=exc.retry_after)
        else:
            log.error("a request failed inside the server", exc_info=exc, extra={"path": scope.path[:200]})
            failure = Failure("INTERNAL", "the server failed; its log says how")
        self._gateway.count(exc.model if isinstance(exc, PenstockError) else "", failure.code)
        status, headers, body = answers.error(failure, self._id(scope))
        if isinstance(exc, MethodNotAllowed):
            routes = self._routes.get(scope.path, self._result_routes)
            headers.append(("allow", ", ".join(routes)))
        exchange.response_bytes(status, headers, body)

    def _id(self, scope: Scope) -> str:
        return request_id(scope.headers.get("x-request-id")) or self._make_id()


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
