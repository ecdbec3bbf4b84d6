"""`penstock keys`, as it is typed."""

import asyncio
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from typer.testing import CliRunner, Result

from penstock.adapters.api_keys import postgres as keys_postgres
from penstock.adapters.api_keys.file import KeysFile
from penstock.auth.keys import KeyRing
from penstock.cli.keys import app
from penstock.errors import Unauthorized, UserMistake
from penstock.roles import redis as shared
from postgres_server import PostgresServer
from token_kit import TIERS


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def keys(*words: str) -> Result:
    return CliRunner().invoke(app, words, standalone_mode=False, catch_exceptions=False)


def ring() -> KeyRing:
    ring = KeyRing(TIERS)
    ring.replace(asyncio.run(KeysFile(Path("penstock-keys.json")).load()))
    return ring


def test_a_key_that_is_created_is_all_that_is_printed_and_lets_its_tenant_in() -> None:
    made = keys("create", "--tenant", "acme", "--tier", "paid", "--expires", "90d", "--note", "laptop")
    assert made.stdout.count("\n") == 1
    assert "not shown again" in made.stderr
    key = made.stdout.strip()
    assert key.rpartition("_")[2] not in made.stderr
    assert ring().identify(key.encode()).tenant == "acme"


def test_the_list_shows_all_but_the_keys() -> None:
    made = [keys("create", "--tenant", f"t{n}", "--tier", "free", "--note", "[red]x") for n in range(2)]
    shown = keys("list").stdout
    listed = json.loads(keys("list", "--json").stdout)
    assert [each["tenant"] for each in listed] == ["t1", "t0"]
    assert [each["state"] for each in listed] == ["active", "active"]
    assert "[red]x" in shown
    for each in made:
        assert each.stdout.strip().rpartition("_")[2] not in shown + json.dumps(listed)
        assert each.stdout.split("_")[1] in shown


@pytest.mark.parametrize("by", ["id", "prefix", "key"])
def test_a_revoked_key_lets_nobody_in(by: str) -> None:
    key = keys("create", "--tenant", "acme", "--tier", "paid").stdout.strip()
    _, key_id, _ = key.split("_")
    told = keys("revoke", {"id": key_id, "prefix": f"pk_{key_id}", "key": key}[by])
    assert "acme" in told.stderr
    with pytest.raises(Unauthorized):
        ring().identify(key.encode())
    assert json.loads(keys("list", "--json").stdout)[0]["state"] == "revoked"


def test_keys_are_kept_in_redis_where_that_is_asked_for(
    redis_urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = shared.redis_settings
    monkeypatch.setattr(
        shared, "redis_settings", lambda config: replace(usual(config), timeout=20.0)
    )  # see `patient`
    monkeypatch.setenv("PENSTOCK_REDIS_NAMESPACE", f"test-{uuid4().hex[:8]}")
    redis = ("--redis", redis_urls["valkey"])
    key_id = keys("create", "--tenant", "acme", "--tier", "paid", *redis).stdout.split("_")[1]
    keys("revoke", key_id, *redis)
    assert [(each["id"], each["state"]) for each in json.loads(keys("list", "--json", *redis).stdout)] == [
        (key_id, "revoked")
    ]
    assert not Path("penstock-keys.json").exists()


def test_keys_are_kept_in_postgresql_where_that_is_asked_for_or_configured(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = partial(keys_postgres.PostgresKeys, time_limit=60.0)
    monkeypatch.setattr(keys_postgres, "PostgresKeys", patient)
    url = postgres.fresh()
    key_id = keys("create", "--tenant", "acme", "--tier", "paid", "--keys-url", url).stdout.split("_")[1]
    Path("penstock.toml").write_text(f"[auth]\nkeys_url = '{url}'\n")
    keys("revoke", key_id)
    assert [(each["id"], each["state"]) for each in json.loads(keys("list", "--json").stdout)] == [
        (key_id, "revoked")
    ]
    assert not Path("penstock-keys.json").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("create", "--tenant", "acme", "--tier", "piad"), "enterprise, paid, free"),
        (("create", "--tenant", "", "--tier", "paid"), "a tenant's name"),
        (("create", "--tenant", "acme", "--tier", "paid", "--expires", "soon"), "such as 90d"),
        (("create", "--tenant", "acme", "--tier", "paid", "--note", "x" * 300), "a note is one line"),
        (("list",), "penstock keys create makes one"),
        (("list", "--keys", "a.json", "--redis", "redis://127.0.0.1:1"), "say one of"),
        (("list", "--keys-url", "mysql://127.0.0.1/keys"), "postgresql://user@host/database"),
        (
            ("list", "--keys-url", "postgresql://u:hunter2@127.0.0.1:1/k"),
            r"127\.0\.0\.1:1/k cannot be reached",
        ),
        (("list", "--redis", "redis://127.0.0.1:1"), "cannot be reached"),
        (("revoke", "nobody", "--keys", "a.json"), "no key 'nobody'"),
    ],
)
def test_a_mistake_is_told_in_one_line_that_says_what_to_do(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserMistake, match=message) as told:
        keys(*words)
    assert "\n" not in told.value.message
    assert "hunter2" not in told.value.message
    assert not Path("penstock-keys.json").exists()
