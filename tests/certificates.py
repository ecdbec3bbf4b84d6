"""Certificates for tests: authorities that sign for servers and clients, and files to put them in.

authority = Authority()
server = authority.issue(tmp_path, "server")   # server.certificate, server.key
"""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)
DAYS = 1  # that a certificate is good for, if nothing else is said


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, in files."""

    certificate: Path
    key: Path

    def read(self) -> tuple[bytes, bytes]:
        """The key first, as gRPC likes it."""
        return self.key.read_bytes(), self.certificate.read_bytes()

    def replace(self, other: "Pair") -> None:
        """Into the same files, as a tool that renews them would: one right after the other, since whoever looks
        in between finds a certificate and a key that do not belong together."""
        key, certificate = other.read()
        self.certificate.write_bytes(certificate)
        self.key.write_bytes(key)


class Authority:
    def __init__(self, name: str = "Test CA") -> None:
        self._name = _name(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        key_id = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        self._certificate = (
            _builder(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(key_id, critical=False)
            .sign(self._key, hashes.SHA256())
        )

    @cached_property
    def pem(self) -> bytes:
        return self._certificate.public_bytes(Encoding.PEM)

    def save(self, folder: Path, name: str = "ca") -> Path:
        file = folder / f"{name}.pem"
        file.write_bytes(self.pem)
        return file

    def issue(self, folder: Path, name: str, *hosts: str, days: int = DAYS) -> Pair:
        """A certificate for these hosts, signed by this authority, good for a server and for a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [_host(host) for host in hosts or ("localhost", "127.0.0.1")]
        certificate = (
            _builder(_name(name), self._name, key, days)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
        pair.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
        pair.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        pair.key.chmod(0o600)
        return pair

    def trusting(self, client: Pair | None = None, *protocols: str) -> ssl.SSLContext:
        """What a client that trusts this authority, and may have a certificate of its own, connects with."""
        context = ssl.create_default_context(cadata=self.pem.decode())
        if client is not None:
            context.load_cert_chain(client.certificate, client.key)
        if protocols:
            context.set_alpn_protocols(list(protocols))
        return context


class AuthorityInFolder:
    """An authority, and all that it signs, in files of one folder."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._authority = Authority(name)
        self.file = self._authority.save(folder, name)

    def sign(self, name: str) -> Pair:
        """For a host or an address of that name, or for a client."""
        return self._authority.issue(self._folder, name, name)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int = DAYS
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + days * DAY)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
