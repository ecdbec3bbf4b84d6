"""One PostgreSQL for the whole session; every test has a schema of its own on it.

Tests that hurt a server start one for themselves.
"""

from collections.abc import Iterator

import pytest

from postgres_server import PostgresServer, postgres_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server
