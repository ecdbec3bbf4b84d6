"""Forged and expired tokens over HTTP, with a clock that is moved by hand: minutes pass in a moment."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import aiohttp

from penstock.auth.authenticator import Authenticator
from penstock.config import load
from penstock.roles.data_plane import data_plane
from penstock.roles.embedded import embedded
from penstock.runtime.embedded_server import EmbeddedServer
from penstock.server.listen import DataListener, bind
from token_kit import NOW, Clock, IdentityProvider, identity_provider, jwk, sign, verifier


@dataclass
class Door:
    """A data plane behind which a model answers; only the clock of its tokens is ours."""

    url: str
    client: aiohttp.ClientSession
    clock: Clock

    async def status(self, token: bytes) -> int:
        headers = {"authorization": f"Bearer {token.decode()}"}
        async with self.client.post(
            f"{self.url}/v1/inference", json={"input": "a"}, headers=headers
        ) as answer:
            return answer.status

    async def all_of(self, tokens: Iterable[bytes]) -> Counter[int]:
        return Counter(await asyncio.gather(*map(self.status, tokens)))

    def fresh(self, kid: str, number: int = 0, **claims: object) -> bytes:
        """Ed25519: it is quick to sign."""
        return sign("EdDSA", kid, number, at=self.clock.now, **claims)


@asynccontextmanager
async def opened(provider: IdentityProvider) -> AsyncIterator[Door]:
    provider.keys = [jwk("EdDSA", "d0")]
    clock, loop = Clock(), asyncio.get_running_loop()
    patient = dict.fromkeys(("timeouts.queue", "timeouts.processing", "timeouts.request"), "60s")
    config = load(None, {}, {"model.target": "sim:0ms", **patient})
    behind = embedded(config, loop).inside
    assert isinstance(behind, EmbeddedServer)
    tokens = verifier(provider.url, clock, timeout=60.0)
    assert tokens.provider is not None
    edge = data_plane(behind.gateway, config, loop, time.monotonic, Authenticator(tokens=tokens))
    listener = DataListener(edge, bind("127.0.0.1", 0, ""))
    behind.start()
    await behind.started
    await listener.start()
    try:
        async with aiohttp.ClientSession() as client:
            yield Door(listener.url, client, clock)
    finally:
        listener.close()
        await tokens.provider.close()
        await behind.stop()


def play(body: Callable[[IdentityProvider, Door], Awaitable[None]]) -> None:
    async def played() -> None:
        async with identity_provider() as provider, opened(provider) as door:
            await body(provider, door)

    asyncio.run(played())


def test_the_first_tokens_of_all_wait_for_one_fetch_and_are_served() -> None:
    async def body(provider: IdentityProvider, door: Door) -> None:
        tokens = [door.fresh("d0", jti=str(number)) for number in range(20)]
        assert await door.all_of(tokens) == {200: 20}
        assert provider.fetches == 1

    play(body)


def test_a_flood_of_unknown_keys_for_ten_minutes_costs_one_fetch_in_thirty_seconds() -> None:
    async def body(provider: IdentityProvider, door: Door) -> None:
        assert await door.status(door.fresh("d0")) == 200
        for second in range(0, 601, 10):
            door.clock.now = NOW + second
            flood = [door.fresh(f"unknown-{second}-{number}", 1) for number in range(5)]
            assert await door.all_of([*flood, door.fresh("d0")]) == {401: 5, 200: 1}
        assert provider.fetches == 1 + 600 / 30

    play(body)


def test_ten_minutes_without_the_provider_refuse_no_good_token_and_take_no_other() -> None:
    async def body() -> None:
        async with AsyncExitStack() as stack:
            async with identity_provider() as provider:
                door = await stack.enter_async_context(opened(provider))
                assert await door.status(door.fresh("d0")) == 200
            for second in range(0, 601, 10):  # nobody listens at its address any more
                door.clock.now = NOW + second
                tokens = [door.fresh("d0", jti=str(second)), door.fresh("unknown", 1)]
                assert await door.all_of(tokens) == {200: 1, 401: 1}

    asyncio.run(body())


def test_a_key_that_the_provider_adds_is_taken_after_one_fetch_and_the_old_one_until_it_is_removed() -> None:
    async def body(provider: IdentityProvider, door: Door) -> None:
        def old() -> bytes:
            return door.fresh("d0")

        def new() -> bytes:
            return door.fresh("d1", 1)

        assert await door.status(old()) == 200
        provider.keys = [jwk("EdDSA", "d0"), jwk("EdDSA", "d1", 1)]
        assert await door.status(new()) == 401  # asked a moment ago: not again so soon
        door.clock.now += 30
        assert await door.all_of([new() for _ in range(10)]) == {200: 10}
        assert await door.status(old()) == 200
        assert provider.fetches == 2
        provider.keys = [jwk("EdDSA", "d1", 1)]
        door.clock.now += 30
        assert await door.status(door.fresh("unknown", 2)) == 401  # which brings the keys as they are now
        assert await door.status(old()) == 401
        assert await door.status(new()) == 200
        assert provider.fetches == 3

    play(body)


def test_a_token_that_is_sent_again_after_it_has_expired_is_refused() -> None:
    async def body(provider: IdentityProvider, door: Door) -> None:
        token = door.fresh("d0", exp=NOW + 60)
        assert await door.status(token) == 200
        door.clock.now = NOW + 60 + 30  # the leeway
        assert await door.status(token) == 401

    play(body)
