"""TLS towards clients: made from files, and made anew when they change, without a restart. An edge with TLS asks
for the context of each new connection. `server/certificates.py` makes it from the configuration, which the edge
does not know.

When a certificate changes, a new context serves the connections that come; open connections keep theirs. If the new
files cannot be used, the log says so once, a counter goes up, and the old certificate stays in force.
"""

import asyncio
import logging
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from penstock.edge.certificate_end import first_end
from penstock.errors import UserMistake
from penstock.file_state import FileState, state_of
from penstock.loops import Loops

EVERY = 0.5  # seconds between two looks at the files
# The ciphers of TLS 1.2: with forward secrecy, and fit for HTTP/2 (RFC 9113, 9.2.2).
CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
ASKED = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}

log = logging.getLogger("penstock.tls")


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """`[tls]` in the configuration."""

    certificate: Path  # a PEM file: the server's own certificate first, then the chain
    key: Path  # a PEM file, not encrypted; may be the same file
    # A PEM file with the authorities that sign for clients; None: no client is asked for a certificate.
    client_ca: Path | None = None
    client_certificates: str = "required"  # required, optional or none
    minimum: str = "1.2"
    http2: bool = True

    @property
    def files(self) -> list[Path]:
        return [self.certificate, self.key, *([self.client_ca] if self.client_ca else [])]


class Tls(Protocol):
    """What an edge and its listener need of TLS."""

    @property
    def context(self) -> ssl.SSLContext:
        """The context for the next connection."""
        ...

    @property
    def dead(self) -> bool:
        """Whether the watch over the files has ended."""
        ...

    def handshake_failed(self) -> None: ...

    def start(self) -> None: ...

    def close(self) -> None: ...


class ServerTls:
    """The context for the next connection, and a second one for the admin plane. Raises UserMistake."""

    def __init__(self, settings: TlsSettings) -> None:
        self._settings = settings
        self._seen = self._loaded = _states(settings.files)
        self.context = _context(settings)
        # The admin plane listens with this context, so it is kept, and reloaded in place.
        self.admin_context = _plain_context(settings)
        self.ends = first_end(settings.certificate)
        self.loads = 1
        self.failures = 0
        self.failed_handshakes = 0
        self._loops: Loops | None = None

    def handshake_failed(self) -> None:
        self.failed_handshakes += 1

    # ---- life --------------------------------------------------------------------------------------------

    def start(self) -> None:
        if self._loops is None:
            self._loops = Loops()
            self._loops.keep("the watch over certificates", self._watch)

    @property
    def dead(self) -> bool:
        return self._loops is not None and bool(self._loops.dead())

    def close(self) -> None:
        if self._loops is not None:
            self._loops.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            self.look()

    def look(self) -> None:
        """Reload files that have changed. A certificate and its key are written one after the other, so they are
        read only when neither has changed since the last look."""
        seen, self._seen = self._seen, _states(self._settings.files)
        if self._seen == seen and seen != self._loaded:
            self.reload()

    def reload(self) -> None:
        self._loaded = self._seen = _states(self._settings.files)
        try:
            context = _context(self._settings)
            self.admin_context.load_cert_chain(self._settings.certificate, self._settings.key, _refuse_to_ask)
        except (UserMistake, OSError) as error:
            self.failures += 1
            log.error("certificates stay as they were", extra={"error": str(error)})
        else:
            self.context = context
            self.ends = first_end(self._settings.certificate)
            self.loads += 1
            log.info("certificates loaded anew", extra={"file": str(self._settings.certificate)})

    def health(self) -> dict[str, int]:
        return {
            "certificate_loads": self.loads,
            "failed_certificate_loads": self.failures,
            "failed_handshakes": self.failed_handshakes,
        }


class AdminTls:
    """The same certificate for the admin plane, which asks no client for a certificate."""

    def __init__(self, tls: ServerTls) -> None:
        self._tls = tls
        self.context = tls.admin_context  # stays the same one, and is reloaded in place

    def handshake_failed(self) -> None:
        """Count nothing: the counters are of clients' handshakes."""

    def start(self) -> None:
        self._tls.start()

    @property
    def dead(self) -> bool:
        return self._tls.dead

    def close(self) -> None:
        self._tls.close()


def _states(files: list[Path]) -> list[FileState | None]:
    return [state_of(file) for file in files]


def _context(settings: TlsSettings) -> ssl.SSLContext:
    context = _plain_context(settings)
    context.set_alpn_protocols(["h2", "http/1.1"] if settings.http2 else ["http/1.1"])
    if settings.client_ca is not None:
        try:
            context.load_verify_locations(settings.client_ca)
        except OSError as error:
            raise UserMistake(f"tls.client_ca: {settings.client_ca} {_words(error)}") from None
        context.verify_mode = ASKED[settings.client_certificates]
    return context


def _plain_context(settings: TlsSettings) -> ssl.SSLContext:
    """Returns a context that asks no client for a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = VERSIONS[settings.minimum]
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_ciphers(CIPHERS)
    for name, file in (("certificate", settings.certificate), ("key", settings.key)):
        try:
            file.read_bytes()
        except OSError as error:
            raise UserMistake(f"tls.{name}: {file} {_words(error)}") from None
    try:
        context.load_cert_chain(settings.certificate, settings.key, _refuse_to_ask)
    except ssl.SSLError as error:
        files = f"tls.certificate and tls.key ({settings.certificate}, {settings.key})"
        if error.reason == "KEY_VALUES_MISMATCH":
            raise UserMistake(f"{files} do not belong together") from None
        raise UserMistake(f"{files} are not a certificate and its key in PEM: {_words(error)}") from None
    return context


def _refuse_to_ask() -> str:
    """Raises UserMistake. OpenSSL calls it for the password of a key, and would otherwise ask at the terminal."""
    raise UserMistake(
        "tls.key is encrypted with a password: give one that is not, readable by its owner alone"
    )


def _words(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"cannot be used: {error.reason or error}"
    return f"cannot be read: {error.strerror}"
