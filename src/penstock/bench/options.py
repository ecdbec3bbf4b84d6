"""Turns what people write after `penstock bench` into values. A mistake is one line that says what to write.
`cli/bench.py` calls it before anything is sent, and the commands of the simulator call `parse_clients` for
`--tiers`. A payload may be read from a file, and `reach` connects to the server once."""

import json
import math
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

from penstock.bench.pool import Address
from penstock.client import address as client
from penstock.errors import UserMistake

ADMIN_PORT = 9000  # a server's default
REACH_TIMEOUT = 3.0  # seconds


@dataclass(slots=True, frozen=True)
class Server(client.Server):
    """The server that gets the load."""

    @property
    def admin(self) -> str:
        """The URL of the admin plane, unless --admin names another."""
        return f"http://{self.bracketed}:{ADMIN_PORT}"


def parse_server(url: str) -> Server:
    """Returns the server that a URL names. Without a path it means the inference endpoint. Raises UserMistake."""
    at = client.server_at(url)
    path = f"{client.INFERENCE}{at.path}" if not at.path or at.path.startswith("?") else at.path
    return Server(at.url, at.host, at.port, path, at.tls)


def reach(server: Server) -> Address:
    """Connects once, and returns the address. This resolves the name for the whole run, and finds a wrong address
    before the run starts."""
    tls = ssl.create_default_context() if server.tls else None
    try:
        with socket.create_connection((server.host, server.port), REACH_TIMEOUT) as probe:
            host = str(probe.getpeername()[0])
            if tls is not None:
                tls.wrap_socket(probe, server_hostname=server.host).close()
    except OSError as error:
        why = error.strerror or str(error)
        raise UserMistake(
            f"cannot reach {server.host}:{server.port} ({why}); is the server up? `penstock serve` starts one"
        ) from None
    return Address(host, server.port, tls, server.host if tls else None)


def parse_clients(text: str) -> tuple[tuple[str, float], ...]:
    """Returns client ids and weights, from a text such as acme=0.2,free=0.8."""
    clients: dict[str, float] = {}
    for part in text.split(","):
        name, _, weight = part.strip().partition("=")
        try:
            clients[name] = float(weight)
        except ValueError:
            clients[name] = math.nan
        if not name or not 0 < clients[name] < math.inf:
            raise UserMistake(
                f"--tiers takes client ids with weights such as acme=0.2,free=0.8, not {text!r}"
            )
    return tuple(clients.items())


def parse_payload(text: str) -> object:
    """Returns the payload that a file holds, as JSON or text, or that the text itself is, as JSON."""
    path = Path(text)
    try:
        is_file = path.is_file()
    except OSError:  # too long for a name, so it is not one
        is_file = False
    if is_file:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserMistake(f"cannot read --payload {path}: {error}") from None
    try:
        value: object = json.loads(text)
    except ValueError:
        if is_file:
            return text
        raise UserMistake(
            f"--payload is a file, or JSON such as '\"hello\"'; {text[:60]!r} is neither"
        ) from None
    if value is None:
        raise UserMistake("--payload must not be null: there would be nothing to send")
    return value
