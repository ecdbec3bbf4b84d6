"""An identity provider of our own: it signs, publishes its keys over HTTP, and can misbehave."""

import asyncio
import base64
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from hashlib import sha256
from typing import Any

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import get_default_algorithms

from penstock.auth.claims import ClaimRules
from penstock.auth.jwt import JwtSettings, JwtVerifier
from penstock.auth.provider import ProviderSettings
from penstock.auth.public_keys import StaticKey

NOW = 1_800_000_000.0
SECRET = b"a secret of the operator, of forty bytes"
TIERS = ("enterprise", "paid", "free")
RULES = ClaimRules(issuer="https://id.test", audience=("penstock",), tiers=TIERS)


def claims_at(now: float) -> dict[str, Any]:
    return {
        "iss": "https://id.test", "aud": "penstock", "sub": "u1", "tenant": "acme", "tier": "paid", "iat": now - 10,
        "nbf": now - 10, "exp": now + 600,
    }  # fmt: skip


GOOD = claims_at(NOW)


class Clock:
    """Moved by hand."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@cache
def private_key(algorithm: str, number: int = 0) -> Any:
    """The same each time it is asked for: making one takes a while."""
    if algorithm == "RS256":
        return rsa.generate_private_key(65537, 2048)
    if algorithm == "ES256":
        return ec.generate_private_key(ec.SECP256R1())
    return ed25519.Ed25519PrivateKey.generate()


def pem(algorithm: str, number: int = 0) -> bytes:
    public = private_key(algorithm, number).public_key()
    return bytes(public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


def jwk(algorithm: str, kid: str, number: int = 0, **more: object) -> dict[str, Any]:
    public = private_key(algorithm, number).public_key()
    described = get_default_algorithms()[algorithm].to_jwk(public, as_dict=True)
    return {**described, "kid": kid, "use": "sig", **more}


def sign(algorithm: str, kid: str | None, number: int = 0, *, at: float = NOW, **claims: Any) -> bytes:
    """A good token, but for what is said otherwise; a claim that is None is left out."""
    said = {name: value for name, value in {**claims_at(at), **claims}.items() if value is not None}
    key = SECRET if algorithm == "HS256" else private_key(algorithm, number)
    return jwt.encode(said, key, algorithm, {"kid": kid} if kid is not None else {}).encode()


def part(value: object) -> bytes:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(text).rstrip(b"=")


def signed_parts(header: object, claims: object, algorithm: str = "RS256", number: int = 0) -> bytes:
    """Any header over any claims, with a right signature: what a library would not make."""
    text = part(header) + b"." + part(claims)
    if algorithm == "HS256":
        return text + b"." + part(hmac.digest(SECRET, text, "sha256"))
    signer = get_default_algorithms()[algorithm]
    return text + b"." + part(signer.sign(text, private_key(algorithm, number)))


def with_hmac(header: object, claims: object, secret: bytes) -> bytes:
    text = part(header) + b"." + part(claims)
    return text + b"." + part(hmac.new(secret, text, sha256).digest())


class IdentityProvider:
    """Publishes what `keys` says."""

    def __init__(self) -> None:
        self.keys: list[dict[str, Any]] = [jwk("RS256", "r0")]
        self.answer: web.Response | None = None  # instead of the keys
        self.fetches = 0
        self.asked: asyncio.Queue[None] = asyncio.Queue()
        self.held = asyncio.Event()  # cleared: whoever asks waits
        self.held.set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/keys"

    async def handle(self, request: web.Request) -> web.Response:
        self.fetches += 1
        self.asked.put_nowait(None)
        await self.held.wait()
        return web.json_response({"keys": self.keys}) if self.answer is None else self.answer

    async def handle_elsewhere(self, request: web.Request) -> web.Response:
        """Where a redirect may lead to: it knows the key `unknown`."""
        return web.json_response({"keys": [jwk("RS256", "unknown")]})


@asynccontextmanager
async def identity_provider() -> AsyncIterator[IdentityProvider]:
    provider = IdentityProvider()
    app = web.Application()
    app.router.add_get("/keys", provider.handle)
    app.router.add_get("/elsewhere", provider.handle_elsewhere)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    provider.port = runner.addresses[0][1]
    try:
        yield provider
    finally:
        provider.held.set()
        await runner.cleanup()


def verifier(url: str, clock: Clock, *, timeout: float = 60.0, **more: Any) -> JwtVerifier:
    """One that is patient with its provider: on a machine that stands still for a moment it is not away."""
    provider = ProviderSettings(url, timeout=timeout, **more)
    return JwtVerifier(JwtSettings(RULES, provider=provider), clock, clock)


def static_verifier(clock: Clock, **more: Any) -> JwtVerifier:
    """Knows one key of each kind: h0, r0, e0 and d0."""
    keys = (
        StaticKey("HS256", SECRET, "h0"),
        StaticKey("RS256", pem("RS256"), "r0"),
        StaticKey("ES256", pem("ES256"), "e0"),
        StaticKey("EdDSA", pem("EdDSA"), "d0"),
    )
    algorithms = ("HS256", "RS256", "ES256", "EdDSA")
    return JwtVerifier(JwtSettings(RULES, algorithms, static_keys=keys, **more), clock, clock)
