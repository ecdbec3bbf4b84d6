"""A certificate authority for one test: signs whom it is told to, and writes everything down as files in PEM."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Pair(NamedTuple):
    """Of files."""

    certificate: Path
    key: Path

    def read(self) -> tuple[bytes, bytes]:
        """The key first, as gRPC likes it."""
        return self.key.read_bytes(), self.certificate.read_bytes()


class Authority:
    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        authority = x509.BasicConstraints(ca=True, path_length=0)
        certificate = self._draft(self._name, self._key).add_extension(authority, critical=True)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(
            certificate.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        )

    def sign(self, name: str) -> Pair:
        """For a host or an address of that name, or for a client."""
        key = ec.generate_private_key(ec.SECP256R1())
        try:
            names: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(name))
        except ValueError:
            names = x509.DNSName(name)
        draft = self._draft(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key)
        certificate = draft.add_extension(x509.SubjectAlternativeName([names]), critical=False)
        pair = Pair(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        pair.certificate.write_bytes(
            certificate.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        )
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return pair

    def _draft(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
        )
