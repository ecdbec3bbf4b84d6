"""TLS towards a gRPC endpoint: which authority must vouch for it, and the certificate that Penstock shows to it.

It is part of an endpoint's settings: `settings.py` has the files checked when settings are made, and the backend
(`backends/grpc.py`) has them read each time it connects.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path

import grpc

from penstock.errors import BackendUnavailable, UserMistake


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files in PEM. They are read at each start, so that renewed ones are taken up."""

    ca_file: str = ""  # the authority that signs for the endpoint; empty: those that gRPC trusts by itself
    client_certificate: str = ""
    client_key: str = ""  # empty: it is in the certificate's file

    @property
    def any(self) -> bool:
        """Whether any file is named."""
        return bool(self.ca_file or self.client_certificate or self.client_key)

    def check(self) -> None:
        """Raises UserMistake if a file is wrong. gRPC itself would only say, much later, that it cannot connect."""
        if self.client_key and not self.client_certificate:
            raise UserMistake("grpc.client_key is set without its grpc.client_certificate: set that too")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            if self.ca_file:
                context.load_verify_locations(self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise UserMistake(
                f"grpc.ca_file {self.ca_file}: {_why(error, 'no certificate in PEM')}"
            ) from None
        try:
            if self.client_certificate:
                context.load_cert_chain(self.client_certificate, self.client_key or None, _no_password)
        except (OSError, ssl.SSLError, ValueError) as error:
            key = f" and client_key {self.client_key}" if self.client_key else ""
            files = f"grpc.client_certificate {self.client_certificate}{key}"
            raise UserMistake(
                f"{files}: {_why(error, 'not a certificate and its own key, in PEM')}"
            ) from None

    def load(self) -> grpc.ChannelCredentials:
        """Returns the credentials. The files are checked once more, because with an authority's file that has
        become empty gRPC would trust its own list."""
        try:
            self.check()
            return grpc.ssl_channel_credentials(
                _content(self.ca_file),
                _content(self.client_key or self.client_certificate),
                _content(self.client_certificate),
            )
        except UserMistake as error:
            raise BackendUnavailable(error.message) from None
        except OSError as error:
            raise BackendUnavailable(f"cannot read {error.filename}: {error.strerror}") from None


def _content(file: str) -> bytes | None:
    return Path(file).read_bytes() if file else None


def _no_password() -> str:
    raise ValueError("the key is locked with a password: store it without one")


def _why(error: Exception, otherwise: str) -> str:
    if isinstance(error, ssl.SSLError):
        return otherwise
    return (error.strerror if isinstance(error, OSError) else None) or str(error)
