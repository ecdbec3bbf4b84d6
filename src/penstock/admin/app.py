"""Probes, metrics and a look inside (SPEC I1, I2)."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route


class Inside(Protocol):
    """What the admin plane wants to know of a running server."""

    def dead_loops(self) -> Sequence[str]:
        """Loops that are dead or stuck, each in a few words; empty when all is well."""
        ...

    def not_ready(self) -> str:
        """Why no traffic should come here; empty when it should."""
        ...

    def health(self) -> Mapping[str, Any]: ...

    def workers(self) -> Sequence[Mapping[str, Any]]: ...

    def request(self, request_id: str) -> Mapping[str, Any] | None: ...

    def metrics(self) -> bytes: ...


def admin_app(inside: Inside) -> Starlette:
    async def livez(request: Request) -> Response:
        dead = inside.dead_loops()
        return PlainTextResponse("; ".join(dead) or "ok", 503 if dead else 200)

    async def readyz(request: Request) -> Response:
        reason = inside.not_ready()
        return PlainTextResponse(reason or "ok", 503 if reason else 200)

    async def metrics(request: Request) -> Response:
        return Response(inside.metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")

    async def health(request: Request) -> Response:
        return JSONResponse(inside.health())

    async def workers(request: Request) -> Response:
        return JSONResponse(inside.workers())

    async def one_request(request: Request) -> Response:
        found = inside.request(request.path_params["id"])
        if found is None:
            message = "no such request is in flight or kept"
            return JSONResponse({"error": "NOT_FOUND", "message": message}, 404)
        return JSONResponse(found)

    return Starlette(
        routes=[
            Route("/livez", livez),
            Route("/readyz", readyz),
            Route("/metrics", metrics),
            Route("/internal/health", health),
            Route("/internal/workers", workers),
            Route("/internal/requests/{id}", one_request),
        ]
    )
