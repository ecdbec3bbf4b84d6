"""The wish to speak WebSocket, checked before it is granted (RFC 6455, 4.2). The WebSocket door asks with each
request at its path (`websocket.py`). Pure: header fields in, an `Agreement` out, or a refusal.

A browser lets any page open a WebSocket to anywhere, and says in Origin which page it is. It lets no page set a
header field, so a page gives its key as a subprotocol:

    new WebSocket("wss://gpu.example/v1/stream", ["penstock", "bearer." + key])
"""

import binascii
from base64 import b64decode, b64encode
from collections.abc import Collection
from hashlib import sha1
from typing import NamedTuple

from penstock.edge.fields import NO_HEADERS, Headers
from penstock.errors import Forbidden, Malformed, Unauthorized, UpgradeRequired

SUBPROTOCOL = "penstock"
BEARER = "bearer."  # begins a subprotocol that is a credential
KEY_BYTES = 16
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, 1.3
USUAL_PORTS = {"http": ":80", "https": ":443"}


class Agreement(NamedTuple):
    """A wish that can be granted."""

    accept: str  # the answer to its key
    subprotocol: str | None  # the one that is agreed on; None: none was offered
    credentials: Headers  # who asks, as header fields; empty: it does not say


def agree(headers: Headers, origins: Collection[str]) -> Agreement:
    """Raises a refusal. `origins`: of other web pages that may ask."""
    wanted = headers.get(b"connection", b"").lower()
    if headers.get(b"upgrade", b"").lower() != b"websocket" or b"upgrade" not in wanted:
        raise UpgradeRequired(
            "this path speaks WebSocket over HTTP/1.1: connect to it with a WebSocket client, at ws:// or wss://"
        )
    if headers.get(b"sec-websocket-version") != b"13":
        raise UpgradeRequired("the version of WebSocket that is spoken here is 13")
    key = headers.get(b"sec-websocket-key", b"")
    if not _is_key(key):
        raise Malformed(f"Sec-WebSocket-Key must be {KEY_BYTES} bytes in base64")
    _check_origin(headers, origins)
    subprotocol, credentials = _subprotocols(headers)
    return Agreement(b64encode(sha1(key + GUID).digest()).decode(), subprotocol, credentials)


def _is_key(key: bytes) -> bool:
    try:
        return len(b64decode(key, validate=True)) == KEY_BYTES
    except binascii.Error:
        return False


def _check_origin(headers: Headers, origins: Collection[str]) -> None:
    """Raise Forbidden if a web page asks that is neither this server's own nor listed."""
    said = headers.get(b"origin")
    if said is None or "*" in origins:
        return
    origin = said.decode("latin-1").lower()
    scheme, _, host = origin.partition("://")
    own = headers.get(b"host", b"").decode("latin-1").lower()
    usual = USUAL_PORTS.get(scheme, "")
    if origin not in origins and host.removesuffix(usual) != own.removesuffix(usual):
        shown = origin[:100].encode("ascii", "replace").decode()
        raise Forbidden(f"the origin {shown} is not in server.cors_origins")


def _subprotocols(headers: Headers) -> tuple[str | None, Headers]:
    """Returns the subprotocol that is agreed on, and who asks."""
    credentials = {name: value for name, value in headers.items() if name in (b"authorization", b"x-api-key")}
    said = headers.get(b"sec-websocket-protocol")
    if said is None:
        return None, credentials or NO_HEADERS
    offered = [each.strip() for each in said.decode("latin-1").split(",")]
    if SUBPROTOCOL not in offered:
        raise Malformed(f"the subprotocol that is spoken here is '{SUBPROTOCOL}': offer it, or none")
    keys = [each.removeprefix(BEARER) for each in offered if each.startswith(BEARER)]
    if len(keys) + len(credentials) > 1:
        raise Unauthorized("say once who asks: in a header field, or in one subprotocol")
    if keys:
        credentials = {b"authorization": f"Bearer {keys[0]}".encode("latin-1")}
    return SUBPROTOCOL, credentials or NO_HEADERS
