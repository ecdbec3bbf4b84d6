"""API keys over HTTP: made and revoked while the server runs, and honoured whatever becomes of their store."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from penstock.adapters.api_keys.file import KeysFile
from penstock.adapters.api_keys.postgres import PostgresKeys
from penstock.auth.keys import make_key
from penstock.auth.records import KeyStore
from postgres_server import PostgresServer, postgres_server
from server import PATIENT, Server, eventually, running

Deed = Callable[[KeyStore], Coroutine[Any, Any, object]]


def config(setting: str) -> str:
    return f'{PATIENT}[auth]\nmode = "keys"\n{setting}\n'


def in_file(path: Path, deed: Deed) -> None:
    asyncio.run(deed(KeysFile(path)))


def in_postgres(url: str, deed: Deed) -> None:
    async def done() -> None:
        store = PostgresKeys(url)
        try:
            await deed(store)
        finally:
            await store.close()

    asyncio.run(done())


def status(server: Server, key: str) -> int:
    return server.post("/v1/inference", {"input": "a"}, {"authorization": f"Bearer {key}"}).status


@pytest.mark.parametrize("kind", ["file", "postgres"])
def test_a_key_is_taken_once_it_is_made_and_refused_once_it_is_revoked(
    kind: str, tmp_path: Path, postgres: PostgresServer
) -> None:
    path, url = tmp_path / "keys.json", postgres.fresh()
    setting = f'keys_file = "{path}"' if kind == "file" else f'keys_url = "{url}"'

    def change(deed: Deed) -> None:
        if kind == "file":
            in_file(path, deed)
        else:
            in_postgres(url, deed)

    first, record = make_key("acme", "paid", time.time())
    second, other = make_key("beta", "paid", time.time())
    change(lambda store: store.add(record))
    with running("sim:1ms", config=config(setting)) as server:
        assert (status(server, first), status(server, second)) == (200, 401)
        change(lambda store: store.add(other))
        eventually(lambda: status(server, second) == 200)
        change(lambda store: store.revoke(record.id))
        eventually(lambda: status(server, first) == 401)
        assert status(server, second) == 200


def test_keys_are_honoured_while_their_file_is_gone_or_broken(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    key, record = make_key("acme", "paid", time.time())
    in_file(path, lambda store: store.add(record))
    with running("sim:1ms", config=config(f'keys_file = "{path}"')) as server:
        path.unlink()
        eventually(lambda: "there is no file of keys" in server.stderr())
        assert (status(server, key), status(server, key[:-1] + "!")) == (200, 401)
        newer_key, newer = make_key("acme", "paid", time.time())
        in_file(path, lambda store: store.add(record))
        in_file(path, lambda store: store.add(newer))
        eventually(lambda: status(server, newer_key) == 200)
        path.write_text('{"version": 1, "keys": [')
        eventually(lambda: "is not a file of keys" in server.stderr())
        assert (status(server, key), status(server, newer_key)) == (200, 200)


def test_keys_are_honoured_while_postgresql_is_away() -> None:
    key, record = make_key("acme", "paid", time.time())
    with postgres_server() as database:
        url = database.url.replace("postgres@", "postgres:hunter2@")
        in_postgres(url, lambda store: store.add(record))
        with running("sim:1ms", config=config(f'keys_url = "{url}"')) as server:
            database.kill()
            eventually(lambda: "stay as they were known last" in server.stderr())
            assert (status(server, key), status(server, key[:-1] + "!")) == (200, 401)
            database.start()
            in_postgres(url, lambda store: store.revoke(record.id))
            eventually(lambda: status(server, key) == 401)
            assert "hunter2" not in server.stderr()
