"""Makes the bytes of a request. `road.py` and `stream_road.py` call it for each try, and `async_client.py` once for
the part of the head that all requests share. Pure.

Texts, numbers, lists and dicts go as JSON, and so do arrays and tensors, as lists. Bytes go as they are, in
MessagePack, and so does a dict or list with bytes directly in it.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

BYTES = (bytes, bytearray, memoryview)
JSON_HEAD = b"Content-Type: application/json\r\n"
MSGPACK_HEAD = b"Content-Type: application/msgpack\r\nAccept: application/msgpack\r\n"


class Body(msgspec.Struct, omit_defaults=True):
    """The body of `/v1/inference`."""

    input: Any
    model: str | None = None
    parameters: Any = None
    client_id: str | None = None
    timeout_ms: int | None = None


def _plain(value: Any) -> Any:
    """Returns an array or a tensor as a list. The encoder calls it with what it does not know."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(
        f"an input of type {type(value).__name__} cannot be sent: make a text, list, dict or bytes of it"
    )


to_json = msgspec.json.Encoder(enc_hook=_plain).encode
_msgpack = msgspec.msgpack.Encoder(enc_hook=_plain).encode


def encode(body: Body) -> tuple[bytes, bytes]:
    """Returns the line of the head that says in what form the body is, and the body."""
    if has_bytes(body.input):
        return MSGPACK_HEAD, _msgpack(body)
    return JSON_HEAD, to_json(body)


def has_bytes(value: Any) -> bool:
    """Returns whether an input is bytes, or has bytes directly in it."""
    if isinstance(value, str):
        return False
    if isinstance(value, dict):
        return any(isinstance(each, BYTES) for each in value.values())
    if isinstance(value, list | tuple):
        return any(isinstance(each, BYTES) for each in value)
    return isinstance(value, BYTES)


def head_of(path: str, authority: str, fields: Mapping[str, str]) -> bytes:
    """Returns the part of the head that all requests of a client have in common."""
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {authority}",
        *(f"{name}: {value}" for name, value in fields.items()),
    ]
    for line in lines:
        if not (line.isascii() and line.isprintable()):
            raise ValueError(
                f"the header {line.partition(':')[0]!r} cannot be sent with this value: only ASCII can"
            )
    return ("\r\n".join(lines) + "\r\n").encode()
