"""The receiver of traces, an OpenTelemetry collector or whatever speaks OTLP over HTTP. `exporter.py` calls it from
its thread, which is why everything here may wait."""

import gzip
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

from penstock.adapters.tracing.exporter import NotTaken
from penstock.adapters.tracing.otlp import rejected, request
from penstock.errors import UserMistake

NOT_NOW = (429, 502, 503, 504)  # statuses after which the same spans may be taken later
LONGEST_ANSWER = 65_536  # bytes of an answer that are read
LONGEST_RETRY_AFTER = 30.0  # seconds that the receiver may ask us to wait


@dataclass(frozen=True, slots=True)
class ReceiverSettings:
    """How to reach the receiver, as `[tracing]` in the configuration says."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout: float = 10.0  # seconds
    compressed: bool = False
    ca_file: str = ""  # empty: whom the system trusts
    client_certificate: str = ""
    client_key: str = ""  # empty: it is in the same file


class Receiver:
    """Implements `exporter.Post`."""

    def __init__(self, settings: ReceiverSettings, head: tuple[bytes, bytes], agent: str) -> None:
        """`head`: what goes before the spans (`otlp.request_head`). `agent`: what User-Agent says. Raises
        UserMistake for a certificate that cannot be read."""
        self._settings, self._head = settings, head
        parts = urlsplit(settings.url)
        self._address, self._port = parts.hostname or "", parts.port
        self._path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        # As the log may show it: a name, a password or a query may be secret.
        self._where = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        self._tls = _tls(settings) if parts.scheme == "https" else None
        self._headers = {"Content-Type": "application/x-protobuf", "User-Agent": agent, **settings.headers}
        if settings.compressed:
            self._headers["Content-Encoding"] = "gzip"
        self._connection: HTTPConnection | None = None

    def send(self, spans: list[bytes]) -> int:
        body = request(self._head, spans)
        if self._settings.compressed:
            body = gzip.compress(body, 6)
        kept = self._connection is not None
        try:
            status, retry_after, said = self._post(body)
        except (OSError, HTTPException) as error:
            self.close()
            if not kept:
                raise NotTaken(f"{self._where}: {error or type(error).__name__}", 0.0) from None
            return self.send(spans)  # the receiver may have closed a connection that was idle
        if 200 <= status < 300:
            return min(rejected(said), len(spans))
        why = f"{self._where} answered {status}"
        if status in NOT_NOW:
            asked = float(retry_after) if retry_after.isdecimal() else 0.0
            raise NotTaken(why, min(asked, LONGEST_RETRY_AFTER))
        raise NotTaken(why, None)

    def _post(self, body: bytes) -> tuple[int, str, bytes]:
        connection = self._connection or self._open()
        connection.request("POST", self._path, body, self._headers)
        response = connection.getresponse()
        said = response.read(LONGEST_ANSWER)
        if response.will_close or not response.isclosed():  # its rest would be in the way of the next answer
            self.close()
        return response.status, response.getheader("Retry-After", ""), said

    def _open(self) -> HTTPConnection:
        if self._tls is None:
            opened = HTTPConnection(self._address, self._port, timeout=self._settings.timeout)
        else:
            opened = HTTPSConnection(
                self._address, self._port, timeout=self._settings.timeout, context=self._tls
            )
        self._connection = opened
        return opened

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _tls(settings: ReceiverSettings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.ca_file or None)
        if settings.client_certificate:
            context.load_cert_chain(settings.client_certificate, settings.client_key or None)
    except OSError as error:  # an SSLError is one too
        raise UserMistake(
            f"tracing: a certificate cannot be read ({error}): see tracing.ca_file, tracing.client_certificate"
            " and tracing.client_key"
        ) from None
    return context
