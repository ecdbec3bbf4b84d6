"""No secret is ever shown: not by repr, not in an error, not in a log."""

import asyncio
import logging
from pathlib import Path

import pytest

from penstock.adapters.api_keys.file import KeysFile
from penstock.auth.authenticator import Authenticator
from penstock.auth.jwt import JwtSettings, JwtVerifier
from penstock.auth.keys import KeyRing, make_key
from penstock.auth.provider import ProviderSettings
from penstock.auth.public_keys import StaticKey
from penstock.auth.watch import KeyWatch
from penstock.errors import Refused
from token_kit import NOW, RULES, SECRET, TIERS, Clock, sign, static_verifier

URL = "http://user:hunter2@127.0.0.1:1/keys?token=hunter2"


def test_nothing_that_holds_a_secret_shows_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    key, record = make_key("acme", "paid", NOW)
    ring = KeyRing(TIERS, Clock())
    store = KeysFile(tmp_path / "keys.json")
    settings = JwtSettings(
        RULES, ("HS256", "RS256"), ProviderSettings(URL, timeout=1.0), (StaticKey("HS256", SECRET, "h0"),)
    )
    tokens = JwtVerifier(settings, Clock(), Clock())
    who = Authenticator(ring, tokens)
    token = sign("HS256", "h0")
    wrong = key[:-6] + "wrong!"
    said: list[str] = []

    async def body() -> None:
        await store.add(record)
        await KeyWatch(store, ring).look()
        for credential in (key.encode(), token, wrong.encode(), token + b"x", sign("RS256", "unknown")):
            try:
                said.append(repr(await who.identify_slowly({b"authorization": b"Bearer " + credential})))
            except Refused as refused:
                said.append(f"{refused!r} {refused.message} {refused.details}")

    asyncio.run(body())
    assert len(said) == 5
    held = (
        ring,
        store,
        settings,
        settings.provider,
        settings.static_keys,
        tokens,
        tokens.provider,
        who,
        record,
    )
    shown = " ".join([*said, *map(repr, held), caplog.text])
    secrets = [
        key.rpartition("_")[2], wrong.rpartition("_")[2], token.decode(), token.decode().rpartition(".")[2],
        SECRET.decode(), "hunter2", repr(record.digest), repr(record.salt),
    ]  # fmt: skip
    assert [secret for secret in secrets if secret in shown] == []
    assert "127.0.0.1" in caplog.text  # the outage itself was told


def test_a_verifier_shows_no_key_material() -> None:
    tokens = static_verifier(Clock())
    shown = repr(vars(tokens))
    assert SECRET.decode() not in shown
    assert "BEGIN PUBLIC KEY" not in shown
