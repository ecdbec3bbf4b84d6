"""When certificates end, as the metrics show it; the library `cryptography` knows it too."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from certificates import Authority
from penstock.edge.certificate_end import first_end
from server import Server, eventually, running

BEGIN = datetime(2020, 1, 1, tzinfo=UTC)


def certificate(end: datetime, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | None = None) -> bytes:
    key = key or ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ä" * 30)])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 2**150, BEGIN, end)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


@pytest.mark.parametrize("year", [2021, 2049, 2050, 2120])  # the form of a date changes in 2050
def test_a_certificate_tells_when_it_ends(tmp_path: Path, year: int) -> None:
    end = datetime(year, 2, 28, 23, 59, 58, tzinfo=UTC)
    file = tmp_path / "own.pem"
    file.write_bytes(certificate(end))
    assert first_end(file) == end.timestamp()
    file.write_bytes(certificate(end, rsa.generate_private_key(65537, 2048)))
    assert first_end(file) == end.timestamp()


def test_of_a_chain_the_one_that_ends_first_counts(tmp_path: Path) -> None:
    ends = [BEGIN + timedelta(days=days) for days in (300, 100, 200)]
    file = tmp_path / "chain.pem"
    file.write_bytes(b"words before\n" + b"words between\n".join(certificate(end) for end in ends))
    assert first_end(file) == ends[1].timestamp()


@pytest.mark.parametrize(
    "text", ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
def test_a_file_that_tells_nothing_harms_nobody(tmp_path: Path, text: str) -> None:
    file = tmp_path / "odd.pem"
    file.write_text(text)
    assert first_end(file) is None
    assert first_end(tmp_path / "missing.pem") is None


def end_of(server: Server) -> float:
    return server.metric("penstock_tls_certificate_end_timestamp_seconds")


def test_a_server_shows_the_end_of_the_certificate_in_use_and_of_the_one_that_replaces_it(
    tmp_path: Path,
) -> None:
    authority = Authority()
    pair = authority.issue(tmp_path, "server")
    before = x509.load_pem_x509_certificate(pair.certificate.read_bytes()).not_valid_after_utc.timestamp()
    with running("sim:1ms", "--tls-cert", str(pair.certificate), "--tls-key", str(pair.key)) as server:
        assert end_of(server) == before
        own = tmp_path / "longer"
        own.mkdir()
        renewed = authority.issue(own, "server", days=100)
        after = x509.load_pem_x509_certificate(
            renewed.certificate.read_bytes()
        ).not_valid_after_utc.timestamp()
        assert after > before
        pair.replace(renewed)
        eventually(lambda: end_of(server) == after)
