"""Opening a store: what it learns, and what it says when it cannot."""

import asyncio
import logging
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from redis import exceptions as redis_errors
from redis_kit import run_encrypted

from own_ports import free_port
from penstock.adapters.redis.link.connect import (
    Features,
    Patience,
    RedisSettings,
    Store,
    check_durability,
    guard,
    is_outage,
)
from penstock.errors import StoreDown, UserMistake
from redis_servers import KINDS, REDIS, VALKEY, patient, redis_server


async def opened(settings: RedisSettings) -> Store:
    store = Store(settings)
    await store.open()
    return store


def refusal(url: str, timeout: float = 20.0) -> UserMistake | StoreDown:
    """What opening this address says."""
    with pytest.raises((UserMistake, StoreDown)) as caught:
        run_encrypted(opened(patient(url, timeout=timeout)), urlsplit(url).port or 0)
    assert isinstance(caught.value, UserMistake | StoreDown)
    return caught.value


def test_an_open_store_takes_commands_and_knows_its_server(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        store = await opened(redis_settings)
        assert store.features.kind in KINDS
        assert store.features.version >= (7, 0)
        assert store.features.replicas == (1 if store.clustered else 0)
        assert store.features.has_waitaof == (store.features.kind == VALKEY)
        assert await store.memory_ratio() == 0
        key = store.keys.task("1")
        await store.commands.execute_command("SET", key, "x")
        assert await store.blocking().execute_command("GET", key) == b"x"
        await store.close()

    asyncio.run(body())


def test_the_memory_ratio_is_that_of_the_allowed_memory() -> None:
    async def body(url: str) -> None:
        store = await opened(patient(url))
        assert store.features.maxmemory == 100 << 20
        assert 0 < await store.memory_ratio() < 0.5
        await store.close()

    with redis_server(VALKEY, "--maxmemory", "100mb") as server:
        asyncio.run(body(server.url))


def test_a_cancelled_call_ends_and_never_leaves_its_answer_to_the_next(redis_settings: RedisSettings) -> None:
    async def body() -> None:
        store = await opened(redis_settings)
        key = store.keys.task("1")
        await store.commands.execute_command("SET", key, "right")
        where = await store.at(store.commands, key)
        for steps in range(60):  # cancelled at one await after the other
            if steps % 2:
                call = asyncio.ensure_future(store.commands.execute_command("ECHO", "wrong", **where))
            else:
                call = asyncio.ensure_future(store.each([("TYPE", key), ("EXISTS", key)]))
            for _ in range(steps // 2):
                await asyncio.sleep(0)
            finished = call.done()
            call.cancel()
            await asyncio.wait([call])
            assert finished or call.cancelled()
            assert await store.commands.execute_command("GET", key) == b"right"
        await store.close()

    asyncio.run(body())


@pytest.mark.parametrize("namespace", ["", "pen{stock}"])
def test_a_namespace_that_would_break_the_keys_is_the_users_mistake(namespace: str) -> None:
    with pytest.raises(UserMistake):
        Store(RedisSettings("redis://h", namespace=namespace))


@pytest.mark.parametrize("kind", KINDS)
def test_a_wrong_password_and_an_unknown_user_are_the_users_mistake(kind: str) -> None:
    with redis_server(kind, "--requirepass", "secret") as server:
        asyncio.run(_open_and_close(f"redis://:secret@127.0.0.1:{server.port}"))
        for account in ("", ":wrong@", "nobody:secret@"):
            mistake = refusal(f"redis://{account}127.0.0.1:{server.port}")
            assert isinstance(mistake, UserMistake), account
            assert "does not know this user or password" in mistake.message
            assert "secret" not in mistake.message


@pytest.mark.parametrize("kind", KINDS)
def test_an_acl_user_opens_the_store_and_one_without_rights_is_told(kind: str) -> None:
    with redis_server(kind) as server:
        server.command("ACL", "SETUSER", "penstock", "on", ">p", "~penstock*", "+@all", "-config")
        server.command("ACL", "SETUSER", "narrow", "on", ">p", "~*", "+get")
        asyncio.run(_open_and_close(f"redis://penstock:p@127.0.0.1:{server.port}"))
        assert "does not allow this user" in refusal(f"redis://narrow:p@127.0.0.1:{server.port}").message


async def _open_and_close(url: str) -> None:
    store = await opened(patient(url))
    await store.close()


def test_nobody_at_the_address_is_an_outage() -> None:
    for scheme in ("redis", "redis+cluster", "rediss"):
        assert isinstance(refusal(f"{scheme}://127.0.0.1:{free_port()}"), StoreDown)


def test_a_host_that_cannot_be_found_is_an_outage() -> None:
    assert isinstance(refusal("redis://no-such-host.invalid:6379", timeout=0.2), StoreDown)


def test_something_else_than_a_redis_is_the_users_mistake() -> None:
    async def body() -> UserMistake:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await reader.read(1)
                writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
                await writer.drain()
                await reader.read()
            finally:
                writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(UserMistake) as caught:
            await opened(patient(f"redis://127.0.0.1:{port}"))
        server.close()
        await server.wait_closed()
        return caught.value

    assert "is not a Redis" in asyncio.run(body()).message


def test_a_cluster_and_a_single_server_are_not_taken_for_each_other(redis_urls: dict[str, str]) -> None:
    node = redis_urls["cluster"].removeprefix("redis+cluster://").split(",")[0]
    assert "start its URL with redis+cluster://" in refusal(f"redis://{node}").message
    single = redis_urls[VALKEY].removeprefix("redis://")
    assert "start its URL with redis://" in refusal(f"redis+cluster://{single}").message


@contextmanager
def encrypted_server(folder: Path) -> Iterator[tuple[int, Path]]:
    """A port that speaks TLS, and the certificate to trust."""
    key, certificate, port = folder / "key.pem", folder / "cert.pem", free_port()
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-keyout", str(key), "-out", str(certificate), "-subj", "/CN=localhost",
            "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
        ],
        check=True, capture_output=True,
    )  # fmt: skip
    options = (
        "--tls-port", str(port), "--tls-cert-file", str(certificate), "--tls-key-file", str(key),
        "--tls-ca-cert-file", str(certificate), "--tls-auth-clients", "no",
    )  # fmt: skip
    with redis_server(REDIS, *options):
        yield port, certificate


def test_an_encrypted_connection_needs_a_certificate_that_is_trusted(tmp_path: Path) -> None:
    with encrypted_server(tmp_path) as (port, certificate):
        for trusted in (f"ssl_ca_certs={certificate}", "ssl_cert_reqs=none"):
            run_encrypted(_open_and_close(f"rediss://127.0.0.1:{port}?{trusted}"), port)
        assert "name its CA with ?ssl_ca_certs=FILE" in refusal(f"rediss://127.0.0.1:{port}").message
        assert isinstance(refusal(f"redis://127.0.0.1:{port}"), StoreDown)


PLAIN = Features("redis", (7, 0, 15), False, "everysec", 0, 0, "noeviction")


@pytest.mark.parametrize(
    ("durability", "features"),
    [
        ("memory", PLAIN),
        ("fsync", replace(PLAIN, version=(7, 2), append_only=True)),
        ("fsync", replace(PLAIN, kind="valkey", append_only=True)),
        ("fsync", replace(PLAIN, append_only=True, appendfsync="always")),
        ("replica", replace(PLAIN, replicas=1)),
    ],
)
def test_a_durability_that_the_server_can_keep_is_accepted(durability: str, features: Features) -> None:
    check_durability(RedisSettings("redis://h", durability=durability), features)


@pytest.mark.parametrize(
    ("durability", "features", "says"),
    [
        ("paper", PLAIN, "memory or fsync or replica"),
        ("fsync", replace(PLAIN, version=(7, 2)), "appendonly yes"),
        ("fsync", replace(PLAIN, append_only=True), "appendfsync always"),
        ("fsync", replace(PLAIN, append_only=True, appendfsync=None), "appendfsync always"),
        ("replica", PLAIN, "needs 1 replicas"),
    ],
)
def test_a_durability_that_the_server_cannot_keep_is_the_users_mistake(
    durability: str, features: Features, says: str
) -> None:
    with pytest.raises(UserMistake) as caught:
        check_durability(RedisSettings("redis://h", durability=durability), features)
    assert says in caught.value.message


def test_a_server_that_may_evict_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    check_durability(RedisSettings("redis://h"), replace(PLAIN, maxmemory_policy="allkeys-lru"))
    assert "set it to noeviction" in caplog.text


@pytest.mark.parametrize(
    ("error", "outage"),
    [
        (redis_errors.ConnectionError("gone"), True),
        (redis_errors.TimeoutError("late"), True),
        (redis_errors.BusyLoadingError("loading"), True),
        (redis_errors.ClusterDownError("CLUSTERDOWN"), True),
        (redis_errors.OutOfMemoryError("command not allowed"), True),
        (redis_errors.ReadOnlyError("a replica now"), True),
        (redis_errors.ResponseError("MISCONF Errors writing to the AOF file"), True),
        (redis_errors.ResponseError("BUSY Redis is busy running a script"), True),
        (redis_errors.ResponseError("BUSYGROUP Consumer Group name already exists"), False),
        (redis_errors.ResponseError("ERR unknown command"), False),
        (RuntimeError("the handler is closed"), True),
        (RuntimeError("ours"), False),
        (KeyError("ours"), False),
    ],
)
def test_an_outage_is_told_from_a_mistake(error: Exception, outage: bool) -> None:
    assert is_outage(error) == outage
    with pytest.raises(StoreDown if outage else type(error)), guard():
        raise error


def test_waits_grow_to_half_a_second_and_the_outage_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    patience = Patience("The reader")
    waits = [patience.failed(redis_errors.ConnectionError("gone")) for _ in range(7)]
    assert waits == [0.02, 0.04, 0.08, 0.16, 0.32, 0.5, 0.5]
    patience.succeeded()
    patience.succeeded()
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
    assert patience.failed(redis_errors.ConnectionError("again")) == 0.02
    with pytest.raises(KeyError):
        patience.failed(KeyError("ours"))
