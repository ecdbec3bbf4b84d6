"""Forged tokens, a flood of unknown keys, a provider that is down, rotation; with real processes.

The same by the minute, in virtual time: tests/doors/test_http_tokens.py and tests/auth/test_identity_provider.py.
"""

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from forged_tokens import forged
from identity_thread import identity_thread
from installation import patiently
from server import Server, eventually, running
from token_kit import IdentityProvider, jwk, sign
from wire import talk

BODY = b'{"input": "a"}'
GAP = 30.0  # seconds between two fetches, at least


def config(provider: IdentityProvider) -> str:
    """HS256 is among the algorithms, so that a public key could be tried as a secret by the careless."""
    return f"""
[auth]
mode = "jwt"
[auth.jwt]
issuer = "https://id.test"
audience = ["penstock"]
jwks_url = "{provider.url}"
algorithms = ["HS256", "RS256", "ES256", "EdDSA"]
leeway = "0s"
refresh = "30s"
[models.sim]
target = "sim:1ms"
"""


@contextmanager
def served(provider: IdentityProvider) -> Iterator[Server]:
    """A server that has the provider's keys."""
    provider.keys = [jwk("RS256", "r0"), jwk("ES256", "e0"), jwk("EdDSA", "d0")]
    with running(config=config(provider)) as server:
        eventually(lambda: status(server, fresh("RS256", "r0")) == 200, 60.0)
        yield server


def fresh(algorithm: str, kid: str, number: int = 0, **claims: object) -> bytes:
    return sign(algorithm, kid, number, at=time.time(), **claims)


def status(server: Server, token: bytes) -> int:
    """Over a socket: what is forged need not look like a header."""
    head = (
        b"POST /v1/inference HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nConnection: close\r\n"
    )
    length = b"Content-Length: %d\r\n" % len(BODY)
    heard = talk(server.address, head + length + b"Authorization: Bearer " + token + b"\r\n\r\n" + BODY)
    assert len(heard.statuses) == 1, heard.data
    return heard.statuses[0]


def all_of(server: Server, tokens: list[bytes]) -> Counter[int]:
    with ThreadPoolExecutor(16) as pool:
        return Counter(pool.map(lambda token: status(server, token), tokens))


def most_fetches(since: float) -> int:
    return 1 + int((time.monotonic() - since) / GAP)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with identity_thread() as provider, served(provider) as server:
        yield server


def test_no_forged_token_is_taken_and_a_flood_of_unknown_keys_asks_the_provider_next_to_nothing(
    chaos_long: bool,
) -> None:
    with identity_thread() as provider:
        begun = time.monotonic()
        with served(provider) as server:
            good = [("RS256", "r0"), ("ES256", "e0"), ("EdDSA", "d0")]
            assert all_of(server, [fresh(*each) for each in good]) == {200: 3}
            tokens = [make() for make in forged(time.time()).values()]
            assert len(tokens) >= 40
            assert set(all_of(server, tokens)) <= {400, 401}
            flood = [
                fresh("EdDSA", f"unknown-{number}", 1) for number in range(10_000 if chaos_long else 500)
            ]
            assert all_of(server, flood) == {401: len(flood)}
            assert all_of(server, [fresh(*each) for each in good]) == {200: 3}
            assert provider.fetches <= most_fetches(begun)
            assert "Traceback" not in server.stderr()
            assert server.metric("penstock_refused_requests_total", model="", code="INTERNAL") == 0


def test_a_good_token_counts_only_where_it_belongs(server: Server) -> None:
    token = fresh("RS256", "r0").decode()
    elsewhere = [
        {"x-api-key": token},
        {"cookie": f"authorization=Bearer {token}"},
        {"x-authorization": f"Bearer {token}"},
        {"proxy-authorization": f"Bearer {token}"},
        {"authorization": f"Basic {token}"},
        {"authorization": token},
        {"authorization": f"Bearer {token}", "x-api-key": "pk_other"},
    ]
    for headers in elsewhere:
        assert server.call("POST", "/v1/inference", BODY, headers).status == 401, headers
    in_the_address = f"/v1/inference?access_token={token}"
    assert server.post(in_the_address, BODY).status == 401
    twice = f"Bearer {token}\r\nAuthorization: Bearer {token}".encode().removeprefix(b"Bearer ")
    assert status(server, twice) == 401


@pytest.mark.timeout(600)
def test_while_the_provider_is_down_no_good_token_is_refused(chaos_long: bool) -> None:
    with ExitStack() as servers:
        with identity_thread() as provider:
            server = servers.enter_context(served(provider))
        ends = time.monotonic() + (120.0 if chaos_long else 0.0)  # from here on nobody listens at its address
        while True:
            good = [fresh("RS256", "r0", jti=str(number)) for number in range(50)]
            assert all_of(server, good) == {200: 50}
            assert status(server, fresh("RS256", "unknown", 1)) == 401
            if time.monotonic() >= ends:
                return


@pytest.mark.timeout(600)
def test_a_key_that_the_provider_adds_is_taken_at_the_next_fetch_and_one_that_it_removes_is_refused(
    chaos_long: bool,
) -> None:
    """The short form ends before that fetch, which comes 30 s after the first."""
    begun = time.monotonic()
    with identity_thread() as provider, served(provider) as server:

        def told(*wanted: int) -> bool:
            return (status(server, fresh("RS256", "r0")), status(server, fresh("RS256", "r1", 1))) == wanted

        provider.keys = [jwk("RS256", "r0"), jwk("RS256", "r1", 1)]
        assert told(200, 401) or time.monotonic() - begun > GAP
        if chaos_long:
            patiently(lambda: told(200, 200), 2 * GAP)
            provider.keys = [jwk("RS256", "r1", 1)]
            patiently(lambda: told(401, 200), 2 * GAP)
