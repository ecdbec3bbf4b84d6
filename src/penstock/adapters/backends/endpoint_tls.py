"""TLS towards an HTTP endpoint: which authority must vouch for it, and the certificate that Penstock shows. The
backend for such endpoints (`http.py`) asks for a context with each new connection; files that have changed are read
again. `roles/backends.py` makes the settings."""

import logging
import ssl
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import UserMistake
from penstock.file_state import FileState, state_of

log = logging.getLogger("penstock.worker")


@dataclass(frozen=True, slots=True)
class EndpointTls:
    """The part of `[models.NAME.http]` that is about TLS. Files are in PEM."""

    ca_file: str = ""  # the authority that signs for the endpoint; empty: those that the system trusts
    client_certificate: str = ""  # shown to an endpoint that asks for one
    client_key: str = ""  # empty: in the file of the certificate
    server_name: str = ""  # the name in the endpoint's certificate; empty: the host of its URL
    verify: bool = True

    @property
    def files(self) -> dict[str, Path]:
        """The files that are named, by their settings."""
        names = ("ca_file", "client_certificate", "client_key")
        return {name: Path(getattr(self, name)) for name in names if getattr(self, name)}

    def make_context(self) -> ssl.SSLContext:
        """Returns the TLS context. Raises UserMistake that names the setting."""
        for name, file in self.files.items():
            try:
                file.read_bytes()
            except OSError as error:
                raise UserMistake(f"http.{name}: {file} cannot be read: {error.strerror}") from None
        try:
            context = ssl.create_default_context(cafile=self.ca_file or None)
        except ssl.SSLError as error:
            raise UserMistake(f"http.ca_file: {self.ca_file} holds no certificate: {error.reason}") from None
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.client_certificate:
            try:
                context.load_cert_chain(self.client_certificate, self.client_key or None, _refuse_to_ask)
            except ssl.SSLError as error:
                raise UserMistake(
                    "http.client_certificate and http.client_key are not a certificate and its key in PEM:"
                    f" {error.reason}"
                ) from None
        return context


class RenewedContext:
    """The TLS context for the next connection. It is made anew when its files have changed."""

    def __init__(self, settings: EndpointTls) -> None:
        self.settings = settings
        self._states = self._look()
        self._context = settings.make_context()

    def current(self) -> ssl.SSLContext:
        """Returns the context. Changed files that cannot be used are told in the log, and change nothing."""
        states = self._look()
        if states != self._states:
            self._states = states
            try:
                self._context = self.settings.make_context()
            except UserMistake as mistake:
                log.error("certificates stay as they were", extra={"error": mistake.message})
        return self._context

    def _look(self) -> list[FileState | None]:
        return [state_of(file) for file in self.settings.files.values()]


def _refuse_to_ask() -> str:
    """Raises UserMistake. OpenSSL calls it for the password of a key, and would otherwise ask at the terminal."""
    raise UserMistake("http.client_key is encrypted with a password: give one that is not")
