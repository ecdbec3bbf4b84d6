"""The ledger in a PostgreSQL that is reached over TLS, with certificates on both sides."""

import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from encrypted_front import encrypted_front
from ledger_kit import EVERYTHING, row

from certificates import Authority
from penstock.adapters.ledger.open import open_store
from penstock.adapters.ledger.rows import to_lines
from penstock.adapters.ledger.store import LedgerAway
from postgres_server import PostgresServer, postgres_server


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def authority() -> Authority:
    return Authority()


@pytest.fixture
def address(postgres: PostgresServer, authority: Authority, tmp_path: Path) -> Iterator[str]:
    """Of an empty schema behind TLS that wants a certificate of the authority; to be ended with what we show."""
    url = postgres.fresh()
    own = authority.issue(tmp_path, "server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.certificate, own.key)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=authority.pem.decode())
    behind = urlsplit(url).port
    assert behind is not None
    with encrypted_front(behind, context) as port:
        yield url.replace(f":{behind}/", f":{port}/")


def test_rows_are_written_and_read_over_tls(address: str, authority: Authority, tmp_path: Path) -> None:
    client = authority.issue(tmp_path, "client")
    url = (
        f"{address}&sslmode=verify-full&sslrootcert={authority.save(tmp_path)}"
        f"&sslcert={client.certificate}&sslkey={client.key}"
    )
    with closing(open_store(url)) as store:
        assert store.write("spool", 1, to_lines([row(1), row(2)]))
        assert len(store.query(None, None, None, EVERYTHING)) == 2


@pytest.mark.parametrize("trusted", [False, True], ids=["wrong authority", "no certificate of ours"])
def test_a_database_that_cannot_be_trusted_or_does_not_trust_us_counts_as_away(
    address: str, authority: Authority, tmp_path: Path, trusted: bool
) -> None:
    ca = (authority if trusted else Authority("another")).save(tmp_path)
    url = f"{address}&sslmode=verify-full&sslrootcert={ca}"
    with closing(open_store(url)) as store, pytest.raises(LedgerAway):
        store.write("spool", 1, to_lines([row(1)]))
