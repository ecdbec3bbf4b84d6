"""rediss:// with an account and certificates on both sides, against a real Redis that demands them."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from redis import exceptions as redis_errors
from redis_kit import run_encrypted

from certificates import Authority, Pair
from own_ports import free_port
from penstock.adapters.redis.link.connect import Store
from penstock.errors import StoreDown, UserMistake
from redis_servers import REDIS, patient, redis_server

ACCOUNT = "penstock:secret"


class Guarded:
    """A Redis that wants TLS, a certificate of its authority, and a user with a password."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.folder = folder
        self.authority = Authority()
        self.ca = self.authority.save(folder)
        self.client = self.authority.issue(folder, "client")
        self.own = self.authority.issue(folder, "server")

    @property
    def options(self) -> tuple[str, ...]:
        return (
            "--tls-port", str(self.port), "--tls-cert-file", str(self.own.certificate),
            "--tls-key-file", str(self.own.key), "--tls-ca-cert-file", str(self.ca),
            "--tls-auth-clients", "yes", "--user", "default", "off",
            "--user", "penstock", "on", ">secret", "~*", "&*", "+@all",
        )  # fmt: skip

    def url(self, account: str = ACCOUNT, ca: Path | None = None, client: Pair | None = None) -> str:
        url = f"rediss://{account}@127.0.0.1:{self.port}?ssl_ca_certs={ca or self.ca}"
        return url if client is None else f"{url}&ssl_certfile={client.certificate}&ssl_keyfile={client.key}"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    scene = Guarded(tmp_path_factory.mktemp("redis"))
    with redis_server(REDIS, *scene.options):
        yield scene


async def opened(url: str) -> Store:
    store = Store(patient(url))
    await store.open()
    return store


def refusal(url: str) -> UserMistake | StoreDown:
    with pytest.raises((UserMistake, StoreDown)) as caught:
        run_encrypted(opened(url), urlsplit(url).port or 0)
    assert "secret" not in str(caught.value)
    assert isinstance(caught.value, UserMistake | StoreDown)
    return caught.value


def test_an_account_and_a_certificate_open_a_store_that_takes_commands(guarded: Guarded) -> None:
    async def body() -> None:
        store = await opened(guarded.url(client=guarded.client))
        key = store.keys.task("1")
        await store.commands.execute_command("SET", key, "x")
        assert await store.blocking().execute_command("GET", key) == b"x"
        await store.close()

    run_encrypted(body(), guarded.port)


def test_what_is_wrong_with_certificates_or_the_account_is_told(guarded: Guarded) -> None:
    other = Authority("another")
    stranger = other.issue(guarded.folder, "stranger")
    assert "name its CA with" in refusal(guarded.url(ca=other.save(guarded.folder, "other"))).message
    for client in (None, stranger):
        assert "name one with ssl_certfile" in refusal(guarded.url(client=client)).message
    mixed = Pair(guarded.client.certificate, stranger.key)
    assert "do not belong together" in refusal(guarded.url(client=mixed)).message
    assert "user or password" in refusal(guarded.url("penstock:wrong", client=guarded.client)).message


def test_a_renewed_certificate_is_shown_when_the_connection_is_made_anew(guarded: Guarded) -> None:
    async def body() -> None:
        client = guarded.authority.issue(guarded.folder, "to-be-renewed")
        store = await opened(guarded.url(client=client))
        client.replace(Authority("another").issue(guarded.folder, "expired"))
        await store.commands.connection_pool.disconnect()  # type: ignore[union-attr]
        with pytest.raises(redis_errors.ConnectionError):
            await store.commands.execute_command("PING")
        client.replace(guarded.client)
        await store.commands.execute_command("PING")
        await store.close()

    run_encrypted(body(), guarded.port)
