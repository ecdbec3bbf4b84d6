"""Reads the URL of a server, and makes what TLS needs to connect to it. The client calls this (`async_client.py`),
and so does the load generator (`bench/options.py`). The files of certificates are read here; nothing is sent."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from penstock.errors import UserMistake

INFERENCE = "/v1/inference"


@dataclass(slots=True, frozen=True)
class Server:
    """A server, as a URL names it."""

    url: str
    host: str
    port: int
    path: str  # with the query; empty where the URL has none
    tls: bool

    @property
    def bracketed(self) -> str:
        """The host as it stands in a URL."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def authority(self) -> str:
        """What the Host field says."""
        return self.bracketed if self.port == (443 if self.tls else 80) else f"{self.bracketed}:{self.port}"


def server_at(url: str) -> Server:
    """Returns the server that a URL names. Without a scheme it means http. Raises UserMistake."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    try:
        port = parts.port
    except ValueError:
        port = -1
    fits = url.isascii() and not any(letter.isspace() for letter in url)
    if parts.scheme not in ("http", "https") or not parts.hostname or port == -1 or not fits:
        raise UserMistake(f"{url!r} is not an address to send to; try http://127.0.0.1:8000")
    tls = parts.scheme == "https"
    path = "" if parts.path == "/" else parts.path
    return Server(
        url,
        parts.hostname,
        port or (443 if tls else 80),
        f"{path}?{parts.query}" if parts.query else path,
        tls,
    )


def inference_path(server: Server) -> str:
    """Returns the path to send requests to: the URL may end before /v1, with it, or name it whole."""
    path = server.path.rstrip("/")
    if path.endswith(INFERENCE):
        return path
    return f"{path.removesuffix('/v1')}{INFERENCE}"


def tls_context(ca_file: str | Path | None, certificate: str | tuple[str, str] | None) -> ssl.SSLContext:
    """Returns what to connect with. `ca_file`: the authority to trust, instead of the system's. `certificate`: the
    client's own, a file with its key, or two files. Raises UserMistake."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise UserMistake(f"ca_file {ca_file} cannot be read as certificates: {_why(error)}") from None
    if certificate is not None:
        files = (certificate, None) if isinstance(certificate, str) else certificate
        try:
            context.load_cert_chain(*files)
        except (OSError, ssl.SSLError) as error:
            raise UserMistake(f"certificate {files[0]} cannot be used: {_why(error)}") from None
    return context


def _why(error: OSError) -> str:
    return getattr(error, "reason", None) or error.strerror or str(error)
