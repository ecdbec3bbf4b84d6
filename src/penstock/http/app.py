"""The RSGI application: a table of routes, and the one place where errors become responses."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import parse_qs

import msgspec

from penstock.errors import Malformed, MethodNotAllowed, NotFound, PenstockError, Unacceptable
from penstock.http import answers
from penstock.http.body import read_json_body
from penstock.http.openapi import DOCS_PAGE, openapi_document
from penstock.http.rsgi import Exchange, Headers, Scope
from penstock.http.schema import Reader, request_id
from penstock.ports import Gateway, Task
from penstock.types import Ask, Execution, Failure, Outcome, Reply

log = logging.getLogger("penstock.http")

Handler = Callable[[Scope, Exchange], Awaitable[None]]
Answer = Callable[[Reply, Execution, float], bytes]

RESULT = "/v1/result/"


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
        self._reader = Reader(
            gateway, max_depth=limits.max_depth, control_characters=limits.control_characters
        )
        self._openapi = msgspec.json.encode(openapi_document(gateway.models, limits.max_body))
        self._routes: dict[str, dict[str, Handler]] = {
            "/v1/inference": {"POST": self._inference},
            "/api/inference": {"POST": self._short_inference},
            "/openapi.json": {"GET": self._serve_openapi},
            "/docs": {"GET": self._serve_docs},
        }
        self._result_routes: dict[str, Handler] = {"GET": self._result, "DELETE": self._cancel}

    async def __rsgi__(self, scope: Scope, exchange: Exchange) -> None:
        try:
            await self._handler(scope)(scope, exchange)
        except PenstockError as exc:
            self._refuse(scope, exchange, exc)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("a request failed inside the server", extra={"path": scope.path[:200]})
            self._respond(
                exchange,
                *answers.error(Failure("INTERNAL", "the server failed; its log says how"), self._id(scope)),
            )

    def _handler(self, scope: Scope) -> Handler:
        if scope.proto != "http":
            raise NotFound("no WebSocket is served here")
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

    async def _inference(self, scope: Scope, exchange: Exchange) -> None:
        headers = scope.headers
        body = await self._read(scope, exchange)
        ask = self._reader.full(body, headers)
        prefer = headers.get("prefer")
        if prefer is not None and "respond-async" in prefer.lower():
            self._accept_task(ask, exchange)
        else:
            await self._answer(ask, exchange, answers.full_answer)

    async def _short_inference(self, scope: Scope, exchange: Exchange) -> None:
        body = await self._read(scope, exchange)
        await self._answer(self._reader.short(body, scope.headers), exchange, answers.short_answer)

    async def _read(self, scope: Scope, exchange: Exchange) -> bytes:
        limits = self._limits
        return await read_json_body(
            scope.headers, exchange, self._gateway, limit=limits.max_body, seconds=limits.body_seconds
        )

    async def _answer(self, ask: Ask, exchange: Exchange, answer: Answer) -> None:
        waiting = self._gateway.submit(ask)
        watch = exchange.client_disconnect()
        watch.add_done_callback(lambda _: waiting.client_left())
        reply = await waiting.future
        watch.cancel()
        execution = reply.execution
        if reply.outcome is Outcome.SUCCESS and execution is not None:
            body = answer(reply, execution, self._gateway.clock())
            self._respond(exchange, 200, answers.answer_headers(reply, execution), body)
        else:
            assert reply.failure is not None
            self._respond(exchange, *answers.error(reply.failure, reply.request.request_id))

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
        self._respond(exchange, 202, headers, body)

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
        self._respond(exchange, 200, [answers.JSON, ("x-request-id", task.id)], answers.task(task))

    # ---- documents ---------------------------------------------------------------------------------------

    async def _serve_openapi(self, scope: Scope, exchange: Exchange) -> None:
        self._respond(exchange, 200, [answers.JSON], self._openapi)

    async def _serve_docs(self, scope: Scope, exchange: Exchange) -> None:
        self._respond(exchange, 200, [("content-type", "text/html; charset=utf-8")], DOCS_PAGE)

    # ---- endings -----------------------------------------------------------------------------------------

    def _refuse(self, scope: Scope, exchange: Exchange, exc: PenstockError) -> None:
        self._gateway.count("", exc.code)
        failure = Failure(exc.code, exc.message, retry_after=exc.retry_after)
        status, headers, body = answers.error(failure, self._id(scope))
        if isinstance(exc, MethodNotAllowed):
            routes = self._routes.get(scope.path, self._result_routes)
            headers.append(("allow", ", ".join(routes)))
        self._respond(exchange, status, headers, body)

    def _id(self, scope: Scope) -> str:
        return request_id(scope.headers) or self._make_id()

    @staticmethod
    def _respond(exchange: Exchange, status: int, headers: Headers, body: bytes) -> None:
        exchange.response_bytes(status, headers, body)


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
