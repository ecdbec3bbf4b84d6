"""Checks the claims of a token: issuer, audience, times, and which tenant and tier it names. `jwt.py` asks once for
each new token; `roles/auth.py` makes the rules of the configuration.

Only tokens whose signature was right come here, so a message may say what is missing.
"""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from penstock.auth.identity import Identity, is_name
from penstock.errors import Forbidden, Unauthorized, UserMistake

LATEST = 1e11  # seconds since the epoch (the year 5138); milliseconds by mistake would be beyond it


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """What the claims of a token must say."""

    issuer: str
    audience: tuple[str, ...]  # a token must name one of them
    tiers: Collection[str]  # the tiers of this server
    tenant_claim: str = "tenant"
    tier_claim: str = "tier"
    default_tier: str | None = None  # of a token that names no tier; None: such a token is refused
    leeway: float = 30.0  # seconds that clocks may differ

    def __post_init__(self) -> None:
        if not self.issuer or not self.audience or not all(self.audience):
            raise UserMistake(
                "set auth.jwt.issuer and auth.jwt.audience: else tokens for other services would be accepted"
            )
        if self.default_tier is not None and self.default_tier not in self.tiers:
            raise UserMistake(
                f"auth.jwt.default_tier is {self.default_tier!r}, which is not a tier of this server"
            )

    def identify(self, payload: bytes, key_id: str, now: float) -> Identity:
        """Returns who the claims name. `key_id`: the key that signed them. Raises Unauthorized or Forbidden."""
        try:
            claims = read_object(payload)
        except ValueError:
            raise Unauthorized("the token's claims cannot be read") from None
        expires = self._check_times(claims, now)
        if claims.get("iss") != self.issuer:
            raise Unauthorized("the token is from another issuer")
        audience = claims.get("aud")
        named = audience if isinstance(audience, list) else [audience]
        if not any(isinstance(each, str) and each in self.audience for each in named):
            raise Unauthorized("the token is for another audience")
        tenant = claims.get(self.tenant_claim)
        if not is_name(tenant):
            raise Forbidden(f"the token names no tenant: its claim {self.tenant_claim!r} must be a name")
        return Identity(tenant, self._tier(claims), key_id, expires)

    def _check_times(self, claims: dict[str, Any], now: float) -> float:
        """Returns until when the token is good. Raises Unauthorized."""
        times: dict[str, float] = {}
        for name in ("exp", "nbf", "iat"):
            value = claims.get(name)
            if value is None and name != "exp":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LATEST:
                raise Unauthorized(f"the token's claim '{name}' must be a time in seconds")
            times[name] = float(value)
        if times["exp"] + self.leeway <= now:
            raise Unauthorized("the token has expired")
        if max(times.get("nbf", 0.0), times.get("iat", 0.0)) - self.leeway > now:
            raise Unauthorized("the token is not valid yet")
        return times["exp"] + self.leeway

    def _tier(self, claims: dict[str, Any]) -> str:
        tier = claims.get(self.tier_claim, self.default_tier)
        if tier is None:
            raise Forbidden(f"the token names no tier: its claim {self.tier_claim!r} is missing")
        if not isinstance(tier, str) or tier not in self.tiers:
            raise Forbidden(
                f"the token's claim {self.tier_claim!r} is not a tier of this server: {', '.join(self.tiers)}"
            )
        return tier


def read_object(text: bytes) -> dict[str, Any]:
    """Reads a JSON object. Raises ValueError, also if a name is given twice: readers differ in which of the two
    they believe."""
    try:
        value = json.loads(text.decode(), object_pairs_hook=_once, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a name is given twice")
    return value


def _no_number(word: str) -> None:
    raise ValueError(word)
