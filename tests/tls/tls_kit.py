"""Servers with TLS, and clients that look closely at who answers."""

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from certificates import Authority, Pair
from server import HUNG, Server, running
from wire import Heard, listen


@contextmanager
def encrypted(
    pair: Pair, target: str | None = "sim:5ms", *options: str, tls: str = "", config: str = ""
) -> Iterator[Server]:
    section = f"[tls]\ncertificate = '{pair.certificate}'\nkey = '{pair.key}'\n{tls}\n"
    with running(target, *options, config=section + config) as server:
        yield server


@contextmanager
def connected(server: Server, context: ssl.SSLContext) -> Iterator[ssl.SSLSocket]:
    bare = socket.create_connection(server.address, timeout=HUNG)
    with context.wrap_socket(bare, server_hostname="localhost") as secured:
        yield secured


def say(secured: ssl.SSLSocket, words: bytes) -> Heard:
    """What is answered, until the connection is closed."""
    secured.sendall(words)
    return listen(secured)


def serial(server: Server, authority: Authority) -> str:
    """Of the certificate that it shows now."""
    with connected(server, authority.trusting()) as secured:
        return shown_serial(secured)


def shown_serial(secured: ssl.SSLSocket) -> str:
    shown = secured.getpeercert()
    assert shown is not None
    return str(shown["serialNumber"])


def serial_of(file: Path) -> str:
    from cryptography import x509

    number = x509.load_pem_x509_certificate(file.read_bytes()).serial_number
    digits = f"{number:X}"
    return digits if len(digits) % 2 == 0 else f"0{digits}"
