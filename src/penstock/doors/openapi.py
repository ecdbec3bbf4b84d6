"""Makes the document at /openapi.json of what each door says of itself. The door `/openapi.json` calls it when the
models have changed (`document.py`). A fuzzer in the tests checks that the server does what the document says."""

from collections.abc import Sequence

import penstock
from penstock.doors.door import Door
from penstock.doors.openapi_parts import (
    CODES,
    ERRORS,
    HEADERS,
    STRING,
    TOLD_WITH,
    Offer,
    Part,
    answered,
    object_of,
)

ABOUT = """Send one input, get one output; Penstock forms batches of what arrives together, keeps the workers
busy, and brings each answer back to the connection that asked.

Every error has one shape: a code in `error` that does not change, a `message` for people, the `request_id`, and
`retry_after_ms` where waiting helps."""


def openapi_document(doors: Sequence[Door], offer: Offer) -> Part:
    paths, schemas = Part(), Part()
    for door in doors:
        described = door.describe(offer)
        if offer.secured and not door.public:
            _secure(door, described.paths)
        paths |= described.paths
        schemas |= described.schemas
    document: Part = {
        "openapi": "3.1.0",
        "info": {"title": "Penstock", "version": penstock.__version__, "description": ABOUT},
        "tags": [
            {"name": "Inference", "description": "One input in, one output out."},
            {"name": "Other clients", "description": "What clients of other servers send."},
            {"name": "Tasks", "description": "Ask now, fetch the answer later."},
            {"name": "Server", "description": "What is served here, and whether it is."},
        ],
        "paths": paths,
        "components": {
            "schemas": {**schemas, "Error": _error()},
            "responses": {
                name: answered(
                    about.format(max_body=offer.max_body), "Error", "X-Request-Id", *TOLD_WITH.get(status, ())
                )
                for status, (name, about) in ERRORS.items()
            },
            "headers": HEADERS,
        },
    }
    if offer.secured:
        document["security"] = [{"bearer": []}, {"apiKey": []}]
        document["components"]["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer", "description": "An API key, or a token."},
            "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        }
    return document


def _secure(door: Door, paths: Part) -> None:
    for path in paths.values():
        for method in path.keys() & {"get", "post", "delete"}:
            path[method]["responses"] |= door.describe_errors(401, 403)


def _error() -> Part:
    return object_of(
        {
            "error": {"enum": CODES},
            "message": STRING,
            "request_id": STRING,
            "retry_after_ms": {"type": "integer", "minimum": 0},
        },
        optional=("retry_after_ms",),
    )
