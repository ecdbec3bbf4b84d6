"""The routes of the admin plane: probes, metrics, the overview and its page, workers, requests, dead letters.

`roles/process.py` calls `admin_app` with itself as the `RunningServer`, and with the dead letters and what was set
aside, where there are any. These give every answer; here are only the routes and how an answer is written.
`server/admin_plane.py` carries requests here.
"""

from collections.abc import Callable, Mapping, Sequence
from hmac import compare_digest
from typing import Any, Protocol

from msgspec import Struct, json
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from penstock.admin.pages import FILES, page_routes
from penstock.admin.stream import Stream
from penstock.errors import PenstockError, Unacceptable, Unauthorized
from penstock.overview.overview import Overview, Past

PROBES = ("/livez", "/readyz")

OPEN = (*PROBES, *FILES)  # what needs no token
EVENTS = {
    "content-type": "text/event-stream",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
}

MOST_LETTERS = 1000  # on one page
MOST_SLOW, USUAL_SLOW = 1000, 20  # slow requests in one answer


class RunningServer(Protocol):
    """What the admin plane asks a running server."""

    def dead_loops(self) -> Sequence[str]:
        """Returns the loops that are dead or stuck, each described in a few words; none if all is well."""
        ...

    def not_ready(self) -> str:
        """Returns why no traffic should come here; empty if it should."""
        ...

    def health(self) -> Mapping[str, object]: ...

    def workers(self) -> Sequence[Struct]:
        """Returns a row for each worker."""
        ...

    async def request(self, request_id: str, tenant: str) -> Mapping[str, Any] | None:
        """Returns what became of a request; None if it is not known. `tenant`: whose request it is, which is needed
        to find a task."""
        ...

    async def slowest(self, most: int, model: str) -> Sequence[Mapping[str, Any]]:
        """Returns the slowest requests of the last minutes, the slowest first. `model`: empty for all models."""
        ...

    async def overview(self) -> Overview:
        """Returns how everything stands now."""
        ...

    async def hour(self) -> Sequence[Past]:
        """Returns how everything stood in each step of the last hour."""
        ...

    def settings_in_force(self) -> Mapping[str, object]:
        """Returns each setting with where it came from, and which others were read since and need a restart.
        Secrets are hidden."""
        ...

    async def finish(self) -> tuple[bool, int]:
        """Takes nothing new and finishes what was accepted, as on SIGTERM; the process goes on to answer probes.
        Returns whether all was finished in time, and how many requests were not."""
        ...

    def metrics(self, accept: str) -> tuple[bytes, str]:
        """Returns the metrics page and its content type, in the format that an Accept header prefers."""
        ...


class DeadLetters(Protocol):
    """Requests that spent all their attempts. Raises NotFound for an id nobody knows."""

    async def list(self, limit: int, before: str | None) -> Sequence[Mapping[str, Any]]:
        """Returns so many dead letters at most, the newest first. `before`: the id of the last one on the page
        before; None for the first page."""
        ...

    async def show(self, letter_id: str) -> Mapping[str, Any]: ...

    async def retry(self, letter_id: str) -> str:
        """Sends the request again as a task; returns the id under which its result can be read."""
        ...

    async def remove(self, letter_id: str) -> None: ...

    async def purge(self) -> int:
        """Removes all; returns how many there were."""
        ...


class SetAside(Protocol):
    """Messages in Redis that could not be read and were set aside."""

    async def list(self, limit: int) -> Sequence[Mapping[str, Any]]: ...


def admin_app(
    inside: RunningServer,
    letters: DeadLetters | None = None,
    token: str = "",
    aside: SetAside | None = None,
    scale: Callable[[], Mapping[str, Any] | None] | None = None,
) -> Starlette:
    """Returns the application. With a token, every path but the probes and the files of the page requires it.
    `scale`: says how many workers there should be; None while nobody knows."""
    looking = Stream(inside.overview, inside.hour)

    async def livez(request: Request) -> Response:
        dead = inside.dead_loops()
        return PlainTextResponse("; ".join(dead) or "ok", 503 if dead else 200)

    async def readyz(request: Request) -> Response:
        reason = inside.not_ready()
        return PlainTextResponse(reason or "ok", 503 if reason else 200)

    async def metrics(request: Request) -> Response:
        page, kind = inside.metrics(",".join(request.headers.getlist("accept")))
        return Response(page, headers={"content-type": kind, "vary": "Accept"})

    async def health(request: Request) -> Response:
        return _as_json(inside.health())

    async def workers(request: Request) -> Response:
        return _as_json(inside.workers())

    async def overview(request: Request) -> Response:
        return _as_json(await inside.overview())

    async def stream(request: Request) -> Response:
        looking.check()
        return StreamingResponse(looking.events(), headers=EVENTS)

    async def settings(request: Request) -> Response:
        return _as_json(inside.settings_in_force())

    async def drain(request: Request) -> Response:
        drained, unfinished = await inside.finish()
        return JSONResponse({"drained": drained, "unfinished": unfinished})

    async def one_request(request: Request) -> Response:
        found = await inside.request(request.path_params["id"], request.query_params.get("tenant", ""))
        if found is None:
            message = (
                "no such request is waiting, ended within the last minutes or is kept as a task;"
                " add ?tenant=NAME if it is a tenant's"
            )
            return JSONResponse({"error": "NOT_FOUND", "message": message}, 404)
        return JSONResponse(found)

    async def slowest_requests(request: Request) -> Response:
        most = _number(request, "slowest", MOST_SLOW, otherwise=USUAL_SLOW)
        return _as_json(await inside.slowest(most, request.query_params.get("model", "")))

    return Starlette(
        routes=[
            Route("/livez", livez),
            Route("/readyz", readyz),
            Route("/drain", drain, methods=["POST"]),
            Route("/metrics", metrics),
            Route("/internal/health", health),
            Route("/internal/workers", workers),
            Route("/internal/config", settings),
            Route("/internal/requests", slowest_requests),
            Route("/internal/overview", overview),
            Route("/internal/stream", stream),
            Route("/internal/requests/{id}", one_request),
            *(dead_letter_routes(letters) if letters is not None else []),
            *([aside_route(aside)] if aside is not None else []),
            *([scale_route(scale)] if scale is not None else []),
            *page_routes(),
        ],
        exception_handlers={PenstockError: _refused},
        middleware=[Middleware(TokenCheck, token=token)] if token else [],
    )


class TokenCheck:
    """Refuses requests without the admin token, except to the probes and to the files of the page."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._wanted = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN:
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not compare_digest(given, self._wanted):
                said = {
                    "error": Unauthorized.code,
                    "message": "the admin plane wants its token, as Bearer",
                }
                answer = JSONResponse(said, 401, {"www-authenticate": "Bearer"})
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _as_json(said: object) -> Response:
    """Returns structs, or plain objects, as JSON."""
    return Response(json.encode(said), media_type="application/json")


async def _refused(request: Request, exc: Exception) -> Response:
    assert isinstance(exc, PenstockError)
    return JSONResponse({"error": exc.code, "message": exc.message}, exc.status)


def aside_route(aside: SetAside) -> Route:
    """Returns the route to what was set aside."""

    async def listing(request: Request) -> Response:
        return JSONResponse(await aside.list(_limit(request)))

    return Route("/internal/aside", listing, methods=["GET"])


def scale_route(scale: Callable[[], Mapping[str, Any] | None]) -> Route:
    """Returns the route to the number of workers that there should be."""

    async def wanted(request: Request) -> Response:
        found = scale()
        if found is None:
            return JSONResponse({"error": "NOT_READY", "message": "no autoscaler leads yet"}, 503)
        return _as_json(found)

    return Route("/internal/scale", wanted, methods=["GET"])


def _limit(request: Request) -> int:
    """Returns how many rows a page should have, by the query."""
    return _number(request, "limit", MOST_LETTERS, otherwise=100)


def _number(request: Request, name: str, most: int, *, otherwise: int) -> int:
    """Returns a number of the query, from 1 to `most`; `otherwise` if it is not there. Raises Unacceptable."""
    given = request.query_params.get(name, str(otherwise))
    if not (given.isascii() and given.isdigit() and 0 < int(given) <= most):
        raise Unacceptable(f"'{name}' must be a whole number from 1 to {most}")
    return int(given)


def dead_letter_routes(letters: DeadLetters) -> list[Route]:
    """Returns the routes to dead letters."""

    async def listing(request: Request) -> Response:
        return JSONResponse(await letters.list(_limit(request), request.query_params.get("before")))

    async def show(request: Request) -> Response:
        return JSONResponse(await letters.show(request.path_params["id"]))

    async def retry(request: Request) -> Response:
        return JSONResponse({"task_id": await letters.retry(request.path_params["id"])}, 202)

    async def remove(request: Request) -> Response:
        await letters.remove(request.path_params["id"])
        return Response(status_code=204)

    async def purge(request: Request) -> Response:
        return JSONResponse({"purged": await letters.purge()})

    return [
        Route("/internal/dlq", listing, methods=["GET"]),
        Route("/internal/dlq", purge, methods=["DELETE"]),
        Route("/internal/dlq/{id}", show, methods=["GET"]),
        Route("/internal/dlq/{id}", remove, methods=["DELETE"]),
        Route("/internal/dlq/{id}/retry", retry, methods=["POST"]),
    ]
