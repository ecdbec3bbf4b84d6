"""A provider that rotates its keys, is away, is slow, or is asked by a flood. The clock is moved by hand."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from penstock.auth.authenticator import Authenticator
from penstock.auth.identity import Identity
from penstock.auth.jwt import JwtVerifier
from penstock.auth.provider import ProviderSettings
from penstock.errors import KeysWanted, StoreDown, Unauthorized, UserMistake
from token_kit import NOW, Clock, IdentityProvider, identity_provider, jwk, sign, verifier

Body = Callable[[IdentityProvider, JwtVerifier, Clock], Awaitable[None]]


def bearer(token: bytes) -> dict[bytes, bytes]:
    return {b"authorization": b"Bearer " + token}


async def ask(tokens: JwtVerifier, token: bytes) -> Identity:
    return await Authenticator(tokens=tokens).identify_slowly(bearer(token))


def play(body: Body) -> None:
    async def played() -> None:
        async with identity_provider() as provider:
            clock = Clock()
            tokens = verifier(provider.url, clock)
            assert tokens.provider is not None
            try:
                await body(provider, tokens, clock)
            finally:
                await tokens.provider.close()

    asyncio.run(played())


def test_the_first_token_brings_the_keys_and_the_next_need_no_provider() -> None:
    async def body(provider: IdentityProvider, tokens: JwtVerifier, clock: Clock) -> None:
        with pytest.raises(KeysWanted):
            tokens.identify(sign("RS256", "r0"))
        assert (await ask(tokens, sign("RS256", "r0"))).tenant == "acme"
        assert tokens.identify(sign("RS256", "r0", tenant="other")).tenant == "other"
        assert provider.fetches == 1

    play(body)


def test_a_flood_of_unknown_key_ids_costs_one_fetch_in_thirty_seconds() -> None:
    async def body(provider: IdentityProvider, tokens: JwtVerifier, clock: Clock) -> None:
        good = sign("RS256", "r0")
        await ask(tokens, good)
        forged = [sign("RS256", f"unknown-{number}", 1) for number in range(50)]
        for second in range(91):
            clock.now = NOW + second
            ends = await asyncio.gather(*(ask(tokens, each) for each in forged), return_exceptions=True)
            assert {type(end) for end in ends} == {Unauthorized}
            assert tokens.identify(good).tenant == "acme"
        assert provider.fetches == 4  # at 0, 30, 60 and 90 s

    play(body)


def test_a_refresh_right_after_another_asks_nobody() -> None:
    async def body(provider: IdentityProvider, tokens: JwtVerifier, clock: Clock) -> None:
        assert tokens.provider is not None
        for second in (0.0, 0.0, 29.9, 30.0):
            clock.now = NOW + second
            await tokens.provider.refresh()
        assert provider.fetches == 2

    play(body)


def test_whoever_comes_during_a_fetch_waits_for_that_one_and_may_leave() -> None:
    async def body(provider: IdentityProvider, tokens: JwtVerifier, clock: Clock) -> None:
        provider.held.clear()
        token = sign("RS256", "r0")
        waiting = [asyncio.create_task(ask(tokens, token)) for _ in range(20)]
        await provider.asked.get()
        waiting[0].cancel()
        provider.held.set()
        ends = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(ends[0], asyncio.CancelledError)
        assert all(isinstance(end, Identity) for end in ends[1:])
        assert provider.fetches == 1

    play(body)


def test_after_a_rotation_the_new_key_is_found_and_what_the_old_one_signed_is_refused() -> None:
    async def body(provider: IdentityProvider, tokens: JwtVerifier, clock: Clock) -> None:
        old, new = sign("RS256", "r0"), sign("RS256", "r1", 1)
        await ask(tokens, old)
        provider.keys = [jwk("RS256", "r0"), jwk("RS256", "r1", 1)]  # both, for a while
        clock.now += 31
        await ask(tokens, new)
        assert tokens.identify(old) is tokens.identify(old)
        provider.keys = [jwk("RS256", "r1", 1)]
        clock.now += 31
        assert tokens.provider is not None
        await tokens.provider.refresh()
        tokens.identify(new)
        with pytest.raises(Unauthorized):
            tokens.identify(old)

    play(body)


def test_a_key_that_changes_under_the_same_id_is_taken_and_the_old_one_dropped() -> None:
    async def body(provider: IdentityProvider, tokens: JwtVerifier, clock: Clock) -> None:
        old = sign("RS256", "r0")
        await ask(tokens, old)
        provider.keys = [jwk("RS256", "r0", 1)]
        clock.now += 31
        assert tokens.provider is not None
        await tokens.provider.refresh()
        tokens.identify(sign("RS256", "r0", 1))
        with pytest.raises(Unauthorized):
            tokens.identify(old)

    play(body)


@pytest.mark.parametrize(
    "answer",
    [
        web.Response(status=500),
        web.Response(status=302, headers={"location": "/elsewhere"}),
        web.Response(text="<html>"),
        web.Response(text="[" * 100_000),
        web.Response(body=b"\xff\xfe"),
        web.json_response({"keys": []}),
        web.json_response({"keys": [{"kty": "oct", "k": "c2VjcmV0", "kid": "r0"}]}),
        web.json_response([]),
        web.Response(text=json.dumps({"keys": [jwk("RS256", "unknown")]}) + " " * 600_000),
    ],
    ids=["500", "redirect", "html", "brackets", "bytes", "no keys", "a secret", "a list", "huge"],
)
def test_keys_stay_good_while_the_provider_talks_nonsense(answer: web.Response) -> None:
    async def body(provider: IdentityProvider, tokens: JwtVerifier, clock: Clock) -> None:
        await ask(tokens, sign("RS256", "r0"))
        provider.answer = answer
        clock.now += 31
        with pytest.raises(Unauthorized):
            await ask(tokens, sign("RS256", "unknown"))
        assert provider.fetches == 2
        assert tokens.identify(sign("RS256", "r0", tenant="still")).tenant == "still"

    play(body)


def test_keys_stay_good_through_ten_minutes_without_the_provider(caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        clock = Clock()
        async with identity_provider() as provider:
            tokens = verifier(provider.url, clock, refresh=60.0)
            await ask(tokens, sign("RS256", "r0"))
            tokens_provider = tokens.provider
            assert tokens_provider is not None
        for second in range(0, 600, 10):  # nobody listens on that port any more
            clock.now = NOW + 31 + second
            await tokens_provider.refresh()
            token = sign("RS256", "r0", jti=str(second), exp=clock.now + 60)
            assert (await ask(tokens, token)).tenant == "acme"
            with pytest.raises(Unauthorized):
                await ask(tokens, sign("RS256", "unknown", exp=clock.now + 60))
        assert tokens_provider.away

    with caplog.at_level(logging.INFO):
        asyncio.run(body())
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("penstock")]
    assert [said.partition(" (")[0] for said in ours] == ["no keys from 127.0.0.1"]


def test_a_server_that_never_had_keys_says_that_it_cannot_check_and_not_that_the_token_is_bad() -> None:
    async def body(provider: IdentityProvider, tokens: JwtVerifier, clock: Clock) -> None:
        provider.answer = web.Response(status=503)
        with pytest.raises(StoreDown) as refused:
            await ask(tokens, sign("RS256", "r0"))
        assert refused.value.retry_after == 30.0
        provider.answer = None
        clock.now += 30
        await ask(tokens, sign("RS256", "r0"))

    play(body)


def test_the_loop_fetches_at_once_and_again_and_ends_when_cancelled() -> None:
    async def body() -> None:
        async with identity_provider() as provider:
            tokens = verifier(provider.url, Clock(), refresh=0.01, gap=0.0)
            assert tokens.provider is not None
            loop = asyncio.create_task(tokens.provider.run())
            for _ in range(3):
                await provider.asked.get()
            loop.cancel()
            await asyncio.wait([loop])
            await tokens.provider.close()
            assert tokens.identify(sign("RS256", "r0")).tenant == "acme"

    asyncio.run(body())


def test_of_the_keys_that_are_offered_only_public_ones_for_signatures_are_used() -> None:
    unusable = [
        jwk("RS256", "enc", use="enc"),
        jwk("RS256", "other", alg="RS512"),
        jwk("RS256", "ops", key_ops=["encrypt"]),
        jwk("RS256", "private", d="AQAB"),
        jwk("ES256", "curve", crv="P-384"),
        jwk("RS256", "broken", n=5),
        jwk("ES256", "off the curve", x="AA" * 21 + "A"),
        {"kty": ["RSA"], "kid": "list"},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "secret", "alg": "HS256"},
    ]

    async def body(provider: IdentityProvider, tokens: JwtVerifier, clock: Clock) -> None:
        provider.keys = [*unusable, jwk("ES256", "e0"), jwk("EdDSA", "d0")]
        await ask(tokens, sign("ES256", "e0"))
        await ask(tokens, sign("EdDSA", "d0"))
        for each in unusable:
            algorithm = "ES256" if each["kty"] == "EC" else "RS256"
            with pytest.raises(Unauthorized):
                await ask(tokens, sign(algorithm, str(each["kid"])))

    play(body)


@pytest.mark.parametrize(
    "url", ["http://id.example.com/keys", "ftp://id/keys", "keys.json", "http://10.0.0.1/k"]
)
def test_a_url_that_would_let_others_forge_keys_is_a_mistake(url: str) -> None:
    with pytest.raises(UserMistake, match="https://"):
        ProviderSettings(url)
    assert ProviderSettings("http://id.example.com/keys", allow_http=True).shown == "id.example.com"
