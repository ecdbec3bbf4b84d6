"""What an operator can get wrong about tokens, and how they are told."""

from typing import Any

import pytest

from penstock.auth.claims import ClaimRules
from penstock.auth.jwt import JwtSettings, JwtVerifier
from penstock.auth.public_keys import StaticKey
from penstock.errors import UserMistake
from token_kit import RULES, SECRET, Clock, jwk, pem, sign


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (StaticKey("HS256", b"short"), "at least 32"),
        (StaticKey("HS256", pem("RS256")), "known to everybody"),
        (StaticKey("HS256", str(jwk("RS256", "r0")).encode()), "known to everybody"),
        (StaticKey("RS256", pem("ES256")), "not one for RS256"),
        (StaticKey("ES256", pem("RS256")), "not one for ES256"),
        (StaticKey("EdDSA", pem("ES256")), "not one for EdDSA"),
        (StaticKey("RS256", SECRET), "not a public key in PEM"),
    ],
)
def test_a_key_of_the_wrong_kind_is_a_mistake(key: StaticKey, message: str) -> None:
    settings = JwtSettings(RULES, ("HS256", "RS256", "ES256", "EdDSA"), static_keys=(key,))
    with pytest.raises(UserMistake, match=message) as told:
        JwtVerifier(settings)
    assert key.material.decode() not in told.value.message


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "set auth.jwt.jwks_url or auth.jwt.key_file"),
        ({"algorithms": ("none",)}, "cannot have 'none'"),
        ({"algorithms": ("RS256", "HS512")}, "HS512"),
        ({"static_keys": (StaticKey("HS256", SECRET),)}, "auth.jwt.algorithms does not name"),
    ],
)
def test_settings_that_cannot_work_are_a_mistake(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserMistake, match=message):
        JwtSettings(RULES, **settings)


def test_an_issuer_and_an_audience_are_needed_and_the_default_tier_must_exist() -> None:
    with pytest.raises(UserMistake, match=r"auth\.jwt\.issuer and auth\.jwt\.audience"):
        ClaimRules("https://id.test", (), ("paid",))
    with pytest.raises(UserMistake, match="not a tier"):
        ClaimRules("https://id.test", ("penstock",), ("paid",), default_tier="gold")


def test_a_secret_without_a_name_serves_tokens_that_name_any_key() -> None:
    settings = JwtSettings(RULES, ("HS256",), static_keys=(StaticKey("HS256", SECRET),))
    tokens = JwtVerifier(settings, Clock())
    assert tokens.identify(sign("HS256", "whatever")).key_id == "jwt"


def test_claims_may_have_other_names_and_a_tier_may_be_usual() -> None:
    rules = ClaimRules(
        "https://id.test", ("other", "penstock"), ("paid", "free"), "https://acme.test/org", "plan", "free"
    )
    settings = JwtSettings(rules, ("RS256",), static_keys=(StaticKey("RS256", pem("RS256")),))
    tokens = JwtVerifier(settings, Clock())
    claims: dict[str, Any] = {"https://acme.test/org": "org-7", "tier": "enterprise"}
    assert tokens.identify(sign("RS256", None, **claims)).tier == "free"
    identity = tokens.identify(sign("RS256", None, plan="paid", **claims))
    assert (identity.tenant, identity.tier) == ("org-7", "paid")
