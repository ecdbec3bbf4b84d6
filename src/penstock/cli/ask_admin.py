"""Asks a running server's admin plane over HTTP, for `penstock workers`, `top`, `dlq`, `plan`, `tune`, `explain`
and `drain`. If it gives no answer, a `UserMistake` says why."""

import json
import os
import urllib.error
import urllib.request
from http import HTTPStatus
from typing import Annotated, Any

import typer

from penstock.errors import UserMistake

Admin = Annotated[
    str,
    typer.Option(
        "--admin", envvar="PENSTOCK_ADMIN", help="Of `penstock serve`, or of a gateway, as it printed it."
    ),
]
USUAL = "http://127.0.0.1:9000"
PATIENCE = 30.0  # seconds

# Opens URLs directly, because the admin plane is not behind a proxy that the environment may name.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class NotThere(UserMistake):
    """The admin plane knows no such thing."""


class NoAdminPlane(UserMistake):
    """Nobody answers there."""


def find(admin: str, path: str) -> Any | None:
    """Returns the answer; None if the admin plane knows no such thing. Raises UserMistake."""
    try:
        return ask(admin, path)
    except NotThere:
        return None


def ask(
    admin: str, path: str, method: str = "GET", *, option: str = "--admin", patience: float = PATIENCE
) -> Any:
    """Returns the answer, which is JSON. `option`: the option that names the admin plane, for a message.
    `patience`: the longest wait, in seconds. Raises UserMistake."""
    url = admin.rstrip("/").removesuffix("/internal/health") + path
    try:
        token = os.environ.get("PENSTOCK_SERVER_ADMIN_TOKEN")
        headers = {"x-penstock": "1", **({"authorization": f"Bearer {token}"} if token else {})}
        request = urllib.request.Request(url, method=method, headers=headers)
        with _direct.open(request, timeout=patience) as answer:
            body = answer.read()
            return json.loads(body) if body else None
    except urllib.error.HTTPError as refused:
        mistake = NotThere if refused.code == HTTPStatus.NOT_FOUND else UserMistake
        raise mistake(_reason(refused.read(), f"{url} answered {refused.code}")) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        said = getattr(reason, "strerror", None) or reason
        raise NoAdminPlane(f"no admin plane at {admin} ({said}): say where it is with {option} URL") from None


def _reason(body: bytes, otherwise: str) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return otherwise
