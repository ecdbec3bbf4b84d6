"""Bytes on a socket, for what no HTTP client would send."""

import json
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Address = tuple[str, int]


@dataclass
class Heard:
    """What came back on one connection until it was closed, or until nothing came for a while."""

    data: bytes = b""
    closed: bool = False
    statuses: list[int] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def json(self) -> Any:
        """Of the last response."""
        return json.loads(self.bodies[-1])


def post(body: bytes, *headers: str, path: str = "/v1/inference", length: int | None = None) -> bytes:
    """A well-formed POST; with `length`, one that lies about its body."""
    said = [f"POST {path} HTTP/1.1", "Host: test", "Content-Type: application/json", *headers]
    said.append(f"Content-Length: {len(body) if length is None else length}")
    return "\r\n".join([*said, "", ""]).encode() + body


def talk(
    address: Address, parts: bytes | Iterable[bytes], *, seconds: float = 60.0, half_close: bool = False
) -> Heard:
    """Send, then listen until the other end closes, or is silent for this long."""
    with socket.create_connection(address, timeout=seconds) as connection:
        try:
            for part in [parts] if isinstance(parts, bytes) else parts:
                connection.sendall(part)
            if half_close:
                connection.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # cut off while sending; what it said before is still to be read
        return listen(connection)


def listen(connection: socket.socket) -> Heard:
    heard = Heard()
    try:
        while data := connection.recv(65536):
            heard.data += data
        heard.closed = True
    except TimeoutError:
        pass
    except ConnectionResetError:
        heard.closed = True
    read_responses(heard)
    return heard


def read_responses(heard: Heard) -> None:
    """Split the pipelined responses; each has a Content-Length here."""
    rest = heard.data
    while rest.startswith(b"HTTP/1."):
        head, found, rest = rest.partition(b"\r\n\r\n")
        if not found:
            return
        status, *lines = head.decode("latin-1").split("\r\n")
        code = int(status.split()[1])
        if code == 100:
            continue
        headers = dict(line.lower().split(": ", 1) for line in lines)
        size = int(headers.get("content-length", "0"))
        heard.statuses.append(code)
        heard.bodies.append(rest[:size])
        rest = rest[size:]
