"""The files of the live page, and the routes to them. The admin application takes the routes from here (`app.py`).
A file is read when it is first asked for.

The files tell nothing about the server, so they need no token; the figures that the page shows do. The policy of
the page allows it its own files and this server, and nothing else: no inline script, no other address, no frame
around it.
"""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FOLDER = Path(__file__).with_name("page")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
# What is served, by its path. Nothing else of the folder is.
FILES = {
    "/": "page.html",
    **{
        f"/page/{name}": name
        for name in (
            "page.css", "page.js", "charts.js", "letters.js", "past.js", "slow.js", "stream.js", "tables.js",
            "words.js", "icon.svg", "uPlot.iife.min.js", "uPlot.min.css",
        )
    },
}  # fmt: skip


def page_routes() -> list[Route]:
    """Returns a route to each file of the page."""
    return [_route(path, name) for path, name in FILES.items()]


def _route(path: str, name: str) -> Route:
    file = FOLDER / name
    body: list[bytes] = []  # empty until the file is first asked for: most processes never show the page

    async def send(request: Request) -> Response:
        if not body:
            body.append(file.read_bytes())
        return Response(body[0], headers={**HEADERS, "content-type": f"{KINDS[file.suffix]}; charset=utf-8"})

    return Route(path, send)
