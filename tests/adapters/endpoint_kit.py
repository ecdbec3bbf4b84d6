"""HTTP endpoints of a known kind, as a test wants them: pages by their names, and what they were posted."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Page = Callable[[Any], object]  # makes an answer of a request's JSON


@asynccontextmanager
async def endpoint(**pages: Page) -> AsyncIterator[tuple[str, list[Any]]]:
    """An endpoint with these pages, by their last names, and all that it was posted."""
    posted: list[Any] = []

    async def answer(request: web.Request) -> web.Response:
        page = pages.get(request.path.rpartition("/")[2])
        if page is None:
            return web.Response(status=404)
        said = None
        if request.method == "POST":
            is_json = request.content_type == "application/json"
            said = await request.json() if is_json else (request.headers, await request.read())
        if said is not None:
            posted.append(said)
        made = page(said)
        return made if isinstance(made, web.Response) else web.json_response(made)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", posted
    finally:
        await runner.cleanup()
