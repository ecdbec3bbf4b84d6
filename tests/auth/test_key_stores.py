"""What every store of keys does: a file, PostgreSQL, and Redis in each of its kinds, by the same tests."""

import asyncio
import json
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from penstock.adapters.api_keys.file import KeysFile
from penstock.adapters.api_keys.postgres import PostgresKeys
from penstock.adapters.redis.link.connect import RedisSettings, Store
from penstock.adapters.redis.records.api_keys import RedisKeys
from penstock.auth.keys import KeyRing, make_key
from penstock.auth.records import KeyStore
from penstock.auth.watch import KeyWatch
from penstock.errors import PenstockError, StoreDown, Unauthorized, UserMistake
from postgres_server import PostgresServer, postgres_server
from redis_servers import KINDS, becomes, patient, redis_server, running
from token_kit import NOW, TIERS

OpenStore = Callable[[], AbstractAsyncContextManager[KeyStore]]


@pytest.fixture(params=["file", "postgres", *KINDS, "cluster"])
def open_store(
    request: pytest.FixtureRequest, tmp_path: Path, redis_urls: dict[str, str], postgres: PostgresServer
) -> OpenStore:
    """Each call opens the same store anew, as another process would."""
    if request.param == "file":

        @asynccontextmanager
        async def opened() -> AsyncIterator[KeyStore]:
            yield KeysFile(tmp_path / "keys.json")

        return opened
    if request.param == "postgres":
        return postgres_store(postgres.fresh())
    return redis_store(patient(redis_urls[request.param], namespace=f"test-{uuid4().hex[:8]}"))


def redis_store(settings: RedisSettings) -> OpenStore:
    @asynccontextmanager
    async def opened() -> AsyncIterator[KeyStore]:
        store = Store(settings)
        await store.open()
        try:
            yield RedisKeys(store)
        finally:
            await store.close()

    return opened


def postgres_store(url: str, time_limit: float = 60.0) -> OpenStore:
    @asynccontextmanager
    async def opened() -> AsyncIterator[KeyStore]:
        store = PostgresKeys(url, time_limit)
        try:
            yield store
        finally:
            await store.close()

    return opened


def play(open_store: OpenStore, body: Callable[[KeyStore], Awaitable[None]]) -> None:
    async def played() -> None:
        async with open_store() as store:
            await body(store)

    asyncio.run(played())


def test_what_was_added_is_loaded_as_it_was(open_store: OpenStore) -> None:
    records = [
        make_key("acme", "paid", NOW)[1],
        make_key("Zoë & Co", "free", NOW + 0.25, 60.0, 'for "the" tests')[1],
    ]

    async def body(store: KeyStore) -> None:
        for record in records:
            await store.add(record)
        async with open_store() as other:
            assert sorted(await other.load(), key=lambda record: record.created) == records

    play(open_store, body)


def test_a_revoked_key_is_loaded_as_revoked_and_stays_so(open_store: OpenStore) -> None:
    record, other = make_key("acme", "paid", NOW)[1], make_key("acme", "paid", NOW)[1]

    async def body(store: KeyStore) -> None:
        await store.add(record)
        await store.add(other)
        revoked = await store.revoke(record.id)
        assert revoked.revoked is not None
        assert (await store.revoke(record.id)).revoked == revoked.revoked  # since when does not move
        loaded = {each.id: each for each in await store.load()}
        assert loaded == {record.id: revoked, other.id: other}

    play(open_store, body)


def test_an_unknown_key_cannot_be_revoked_nor_an_id_used_twice(open_store: OpenStore) -> None:
    record = make_key("acme", "paid", NOW)[1]

    async def body(store: KeyStore) -> None:
        await store.add(record)
        with pytest.raises(UserMistake, match="no key 'nobody'"):
            await store.revoke("nobody")
        with pytest.raises(UserMistake, match="already"):
            await store.add(replace(record, tenant="evil"))
        assert list(await store.load()) == [record]

    play(open_store, body)


def test_the_version_changes_when_the_records_do_and_only_then(open_store: OpenStore) -> None:
    async def body(store: KeyStore) -> None:
        record = make_key("acme", "paid", NOW)[1]
        await store.add(record)
        first = await store.version()
        assert await store.version() == first
        await store.load()
        assert await store.version() == first
        await store.revoke(record.id)
        second = await store.version()
        assert second != first
        await store.add(make_key("acme", "paid", NOW)[1])
        assert await store.version() not in (first, second)

    play(open_store, body)


def test_keys_that_are_added_at_the_same_time_are_all_kept(open_store: OpenStore) -> None:
    records = [make_key(f"tenant-{number}", "paid", NOW)[1] for number in range(10)]

    async def add(number: int) -> None:
        async with open_store() as store:
            await store.add(records[number])

    async def body(store: KeyStore) -> None:
        await asyncio.gather(*(add(number) for number in range(10)))
        assert {record.id for record in await store.load()} == {record.id for record in records}

    play(open_store, body)


def test_a_watched_ring_follows_what_another_process_does(open_store: OpenStore) -> None:
    key, record = make_key("acme", "paid", NOW)
    ring = KeyRing(TIERS)

    def refused() -> bool:
        try:
            ring.identify(key.encode())
        except Unauthorized:
            return True
        return False

    async def body(store: KeyStore) -> None:
        async with open_store() as other, running(KeyWatch(store, ring, every=0.01).run()):
            await other.add(record)
            await becomes(lambda: not refused())
            await other.revoke(record.id)
            await becomes(refused)

    play(open_store, body)


# ---- a store that is away --------------------------------------------------------------------------------


async def _lost_and_made_anew(store: KeyStore, watch: KeyWatch, ring: KeyRing, known: str) -> None:
    """A store that has lost its keys is as good as away; a key that is added then counts beside the known one."""
    with pytest.raises(StoreDown, match="lost the API keys"):
        await watch.look()
    ring.identify(known.encode())
    newer_key, newer = make_key("acme", "paid", NOW)
    await store.add(newer)
    await watch.look()
    ring.identify(newer_key.encode())


def test_keys_are_honoured_while_redis_is_down_and_after_it_came_back_empty() -> None:
    key, record = make_key("acme", "paid", NOW)
    ring = KeyRing(TIERS)

    async def body(store: KeyStore) -> None:
        watch = KeyWatch(store, ring, every=0.01)
        await store.add(record)
        await watch.look()
        server.kill()
        with pytest.raises(StoreDown):
            await watch.look()
        ring.identify(key.encode())
        server.start()  # it kept nothing
        await _lost_and_made_anew(store, watch, ring, key)

    with redis_server() as server:
        play(redis_store(patient(server.url)), body)


def test_keys_are_honoured_while_postgresql_is_down_hangs_or_has_lost_its_tables() -> None:
    key, record = make_key("acme", "paid", NOW)
    ring = KeyRing(TIERS)

    async def body(store: KeyStore) -> None:
        watch = KeyWatch(store, ring)
        await store.add(record)
        await watch.look()
        server.kill()
        with pytest.raises(StoreDown, match="cannot be reached"):
            await watch.look()
        ring.identify(key.encode())
        await asyncio.to_thread(server.start)
        await watch.look()
        server.freeze()
        with pytest.raises(StoreDown, match="no answer within"):
            await watch.look()
        ring.identify(key.encode())
        server.thaw()
        await asyncio.to_thread(server.execute, "DROP TABLE penstock_keys, penstock_keys_stamp")
        await _lost_and_made_anew(store, watch, ring, key)

    with postgres_server() as server:
        play(postgres_store(server.url, time_limit=5.0), body)


def test_a_server_may_be_one_that_can_only_read_the_keys(postgres: PostgresServer) -> None:
    url = postgres.fresh()
    schema = url.rpartition("=")[2]
    record = make_key("acme", "paid", NOW)[1]

    async def body(store: KeyStore) -> None:
        assert await store.version() is None  # nobody has made a key: not a mistake, and not an outage
        assert list(await store.load()) == []
        with pytest.raises(UserMistake, match="no key 'nobody'"):
            await store.revoke("nobody")
        await store.add(record)
        await asyncio.to_thread(
            postgres.execute,
            f"CREATE ROLE {schema} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {schema};"
            f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {schema}",
        )
        async with postgres_store(url.replace("//postgres@", f"//{schema}@"))() as reader:
            assert await reader.version() == await store.version()
            assert list(await reader.load()) == [record]
            with pytest.raises(StoreDown, match="InsufficientPrivilege"):
                await reader.revoke(record.id)

    play(postgres_store(url), body)


def test_keys_are_honoured_while_the_file_is_gone_or_broken_and_the_log_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "keys.json"
    key, record = make_key("acme", "paid", NOW)
    ring = KeyRing(TIERS)

    async def body() -> None:
        store = KeysFile(path)
        await store.add(record)
        good = path.read_bytes()
        async with running(KeyWatch(store, ring, every=0.005).run()):
            await becomes(lambda: len(ring) == 1)
            path.unlink()
            await becomes(lambda: "there is no file of keys" in caplog.text)
            path.write_text("{")
            await asyncio.sleep(0.05)  # several looks: nothing is to happen
            ring.identify(key.encode())
            path.write_bytes(good)
            caplog.set_level("INFO")
            await becomes(lambda: "are read again" in caplog.text)
        assert caplog.text.count("stay as they were known last") == 1

    asyncio.run(body())


def test_what_is_not_a_record_in_redis_is_a_mistake_that_names_the_place(
    redis_settings: RedisSettings,
) -> None:
    async def body() -> None:
        store = Store(redis_settings)
        await store.open()
        try:
            tag = f"{{{redis_settings.namespace}:keys}}"
            await store.commands.execute_command("HSET", tag, "a", "{}")
            with pytest.raises(UserMistake, match=":keys}"):
                await RedisKeys(store).load()
        finally:
            await store.close()

    asyncio.run(body())


# ---- the file --------------------------------------------------------------------------------------------


def test_the_file_is_private_and_holds_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    key, record = make_key("acme", "paid", NOW)
    asyncio.run(KeysFile(path).add(record))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert key.rpartition("_")[2] not in path.read_text()
    assert json.loads(path.read_text())["keys"][0]["tenant"] == "acme"
    assert sorted(each.name for each in tmp_path.iterdir()) == [".keys.json.lock", "keys.json"]


def test_a_file_that_others_can_read_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "keys.json"
    asyncio.run(KeysFile(path).add(make_key("acme", "paid", NOW)[1]))
    assert len(asyncio.run(KeysFile(path).load())) == 1
    assert caplog.messages == []
    path.chmod(0o644)
    assert len(asyncio.run(KeysFile(path).load())) == 1
    assert caplog.messages == [
        f"every user of this machine can read the hashes of the API keys: chmod 600 {path}"
    ]


def test_a_link_to_the_file_is_followed_and_not_replaced(tmp_path: Path) -> None:
    link = tmp_path / "keys.json"
    link.symlink_to(tmp_path / "real.json")
    asyncio.run(KeysFile(link).add(make_key("acme", "paid", NOW)[1]))
    assert link.is_symlink()
    assert len(asyncio.run(KeysFile(tmp_path / "real.json").load())) == 1


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 1, "keys": [{"id": "a"}]}', '{"version": 2, "keys": []}']
)
def test_a_file_that_is_not_one_of_keys_is_a_mistake_and_is_left_as_it_was(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys.json"
    path.write_text(text)
    for deed in (KeysFile(path).load(), KeysFile(path).add(make_key("acme", "paid", NOW)[1])):
        with pytest.raises(UserMistake, match=r"keys\.json"):
            asyncio.run(_await(deed))
    assert path.read_text() == text


def test_a_file_that_anybody_can_write_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    asyncio.run(KeysFile(path).add(make_key("acme", "paid", NOW)[1]))
    path.chmod(0o666)
    with pytest.raises(UserMistake, match="chmod 600"):
        asyncio.run(_await(KeysFile(path).load()))


def test_a_folder_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    store = KeysFile(tmp_path / "none" / "keys.json")
    with pytest.raises(PenstockError, match="there is no folder"):
        asyncio.run(store.add(make_key("acme", "paid", NOW)[1]))


async def _await(deed: Awaitable[object]) -> None:
    await deed
