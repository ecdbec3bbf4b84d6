"""A thousand users with credentials, and a configuration that asks for them.

The benchmarks with identity and quotas on load a server with these. Everything is counted and nothing is refused,
because the quotas are beyond what a machine can do.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from penstock.auth.keys import make_key
from penstock.auth.records import KeyRecord, KeyStore

USERS = 1000
TIERS = ("enterprise", "paid", "paid", "free", "free")  # given to the users in turn
ISSUER, AUDIENCE = "https://id.example", "penstock"
LIFETIME = 24 * 3600  # seconds that a token is good

TOML = """
[auth]
mode = "{mode}"
keys_file = "{folder}/keys.json"

[auth.jwt]
issuer = "{issuer}"
audience = ["{audience}"]
algorithms = ["RS256"]
key_file = "{key_file}"

[tiers.levels.enterprise]
rank = 0
weight = 8
requests_per_minute = 100000000
in_flight = 1000000

[tiers.levels.paid]
rank = 1
weight = 4
requests_per_minute = 100000000
in_flight = 1000000

[tiers.levels.free]
rank = 2
weight = 1
requests_per_minute = 100000000
in_flight = 1000000
"""

LEDGER = """
[ledger]
url = "{url}"
spool = "{folder}/spool"
"""


@dataclass(frozen=True, slots=True)
class Strangers:
    """The credentials that the users send, and what the server must know to accept them."""

    mode: str  # keys, or jwt
    credentials: Sequence[str]  # of the Authorization header
    records: Sequence[KeyRecord]
    public_key: bytes = b""

    def write(self, folder: Path, ledger: str = "") -> Path:
        """Writes a penstock.toml, and the public key that it names. `ledger` is the URL of a database."""
        key_file = folder / "issuer.pem"
        key_file.write_bytes(self.public_key)
        text = TOML.format(
            mode=self.mode, folder=folder, issuer=ISSUER, audience=AUDIENCE,
            key_file=key_file if self.public_key else "",
        )  # fmt: skip
        if ledger:
            text += LEDGER.format(url=ledger, folder=folder)
        path = folder / "penstock.toml"
        path.write_text(text)
        return path

    def enrol(self, store: KeyStore) -> None:
        async def add_all() -> None:
            for record in self.records:
                await store.add(record)

        asyncio.run(add_all())


def with_keys(count: int = USERS) -> Strangers:
    now = time.time()
    made = [make_key(f"tenant-{index}", TIERS[index % len(TIERS)], now) for index in range(count)]
    return Strangers("keys", [f"Bearer {key}" for key, _ in made], [record for _, record in made])


def with_tokens(count: int = USERS) -> Strangers:
    """Signed with RS256, as most identity providers do."""
    key = rsa.generate_private_key(65537, 2048)
    now = int(time.time())
    common = {"iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + LIFETIME}
    tokens = [
        jwt.encode(
            {
                **common,
                "sub": f"user-{index}",
                "tenant": f"tenant-{index}",
                "tier": TIERS[index % len(TIERS)],
            },
            key,
            "RS256",
            {"kid": "1"},
        )
        for index in range(count)
    ]
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return Strangers("jwt", [f"Bearer {token}" for token in tokens], [], public)
