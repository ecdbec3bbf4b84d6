"""Tokens of an identity provider (JWT): verified once, then remembered until they expire. `roles/auth.py` makes the
`JwtVerifier`, and `authenticator.py` calls it for each request that comes with a token.

    size ──► three parts ──► header ──► key by kid and alg ──► signature ──► claims ──► remembered
                                             │ unknown, and the provider may be asked: KeysWanted

PyJWT verifies the signature and nothing else. Our keys decide what is tried, never the token: `jwk`, `jku`, `x5u`
and `x5c` in a header are not even read. `claims.py` checks the times, so that tests can give the clock.
"""

import re
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.auth.claims import ClaimRules, read_object
from penstock.auth.identity import Identity
from penstock.auth.provider import Provider, ProviderSettings
from penstock.auth.public_keys import ALGORITHMS, KeySet, StaticKey, VerifyingKey, need_pyjwt
from penstock.auth.remembered import Remembered
from penstock.errors import KeysWanted, StoreDown, Unauthorized, UserMistake
from penstock.ports import Clock

TYPES = ("jwt", "at+jwt", "application/jwt", "application/at+jwt")  # of `typ`; others are for other purposes
LONGEST_KID = 256  # characters
NOT_VALID = "the token is not valid"
_PART = re.compile(rb"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class JwtSettings:
    """`[auth.jwt]` in the configuration."""

    claims: ClaimRules
    algorithms: tuple[str, ...] = ("RS256", "ES256", "EdDSA")
    provider: ProviderSettings | None = None
    static_keys: tuple[StaticKey, ...] = field(default=(), repr=False)
    longest: int = 8192  # bytes of a token

    def __post_init__(self) -> None:
        for algorithm in (*self.algorithms, *(key.algorithm for key in self.static_keys)):
            if algorithm not in ALGORITHMS:
                raise UserMistake(
                    f"auth.jwt.algorithms cannot have {algorithm!r}: use {', '.join(ALGORITHMS)}"
                )
        for key in self.static_keys:
            if key.algorithm not in self.algorithms:
                raise UserMistake(
                    f"auth.jwt.key_file has a key for {key.algorithm}, which auth.jwt.algorithms does not name"
                )
        if self.provider is None and not self.static_keys:
            raise UserMistake(
                "set auth.jwt.jwks_url or auth.jwt.key_file: tokens are checked with the keys from there"
            )


class JwtVerifier:
    """Verifies tokens with the keys of the configuration and of the provider."""

    def __init__(
        self, settings: JwtSettings, now: Callable[[], float] = time.time, clock: Clock = time.monotonic
    ) -> None:
        need_pyjwt()
        self._settings = settings
        self.now = now
        self._static = [key.load() for key in settings.static_keys]
        self._keys = KeySet(self._static)
        self.remembered = Remembered()
        self.provider = None
        if settings.provider is not None:
            self.provider = Provider(settings.provider, self._take, clock)

    def identify(self, token: bytes) -> Identity:
        """Returns who the token says that asks. Raises Unauthorized or Forbidden; KeysWanted if asking the provider
        may help; StoreDown while the provider has not given any key."""
        identity = self.remembered.find(token, self.now)
        return identity if identity is not None else self._verify(token, self.now())

    def _take(self, offered: list[VerifyingKey]) -> None:
        """Takes over the provider's keys. If one is gone, all verified tokens are forgotten."""
        usable = [key for key in offered if key.algorithm in self._settings.algorithms]
        keys = KeySet([*self._static, *usable])
        if keys.lacks(self._keys):
            self.remembered.forget(lambda identity: True)
        self._keys = keys

    def _verify(self, token: bytes, now: float) -> Identity:
        if len(token) > self._settings.longest:
            raise Unauthorized(f"the token is longer than {self._settings.longest} bytes")
        try:
            header, payload, signature = (_decode(part) for part in token.split(b"."))
            kid, algorithm = self._named(read_object(header))
        except ValueError:
            raise Unauthorized(NOT_VALID) from None
        keys = self._keys.find(kid, algorithm)
        if not keys:
            raise self._unknown()
        signed = token[: token.rindex(b".")]
        for key in keys:
            if key.has_signed(signed, signature):
                identity = self._settings.claims.identify(payload, key.name, now)
                self.remembered.keep(token, identity)
                return identity
        raise Unauthorized(NOT_VALID)

    def _named(self, header: dict[str, Any]) -> tuple[str | None, str]:
        """Returns the key id and algorithm that a token names. They only choose among our keys. Raises
        ValueError."""
        algorithm, kid, kind = header.get("alg"), header.get("kid"), header.get("typ", "JWT")
        if not isinstance(algorithm, str) or algorithm not in self._settings.algorithms:
            raise ValueError("an algorithm that is not among ours")
        if kid is not None and not (isinstance(kid, str) and 0 < len(kid) <= LONGEST_KID):
            raise ValueError("a kid that is not a name")
        if not isinstance(kind, str) or kind.lower() not in TYPES:
            raise ValueError("a token for another purpose")
        if "crit" in header or "b64" in header:
            raise ValueError("extensions that must be understood, and we know none")
        return kid, algorithm

    def _unknown(self) -> Unauthorized | StoreDown:
        provider = self.provider
        if provider is None:
            return Unauthorized(NOT_VALID)
        if provider.due:
            return KeysWanted(NOT_VALID)
        if not provider.answered:
            message = "tokens cannot be checked: the identity provider has not given its keys yet"
            return StoreDown(message, retry_after=max(1.0, provider.next_in))
        return Unauthorized(NOT_VALID)


def _decode(part: bytes) -> bytes:
    """Decodes base64url. Raises ValueError, also if it is not written in its one canonical way."""
    if not _PART.fullmatch(part):
        raise ValueError("not base64url")
    decoded = urlsafe_b64decode(part + b"=" * (-len(part) % 4))
    if urlsafe_b64encode(decoded).rstrip(b"=") != part:
        raise ValueError("not canonical")
    return decoded
