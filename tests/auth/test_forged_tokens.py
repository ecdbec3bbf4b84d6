"""No forged token is taken: whatever it says of itself, and whatever it is made of."""

from typing import Any

import pytest

from forged_tokens import forged
from penstock.auth.authenticator import Authenticator
from penstock.errors import Forbidden, Unauthorized
from token_kit import NOW, Clock, sign, static_verifier

FORGED = forged(NOW)


def test_there_are_at_least_forty_of_them() -> None:
    assert len(FORGED) >= 40


@pytest.mark.parametrize("how", FORGED)
def test_a_forged_token_is_refused(how: str) -> None:
    tokens = static_verifier(Clock())
    with pytest.raises(Unauthorized):
        Authenticator(tokens=tokens).identify({b"authorization": b"Bearer " + FORGED[how]()})


@pytest.mark.parametrize(
    ("algorithm", "kid"), [("HS256", "h0"), ("RS256", "r0"), ("ES256", "e0"), ("EdDSA", "d0")]
)
def test_a_good_token_of_each_algorithm_is_taken_with_and_without_a_kid(algorithm: str, kid: str) -> None:
    tokens = static_verifier(Clock())
    for named in (kid, None):
        identity = tokens.identify(sign(algorithm, named))
        assert (identity.tenant, identity.tier, identity.key_id) == ("acme", "paid", f"jwt:{kid}")


def test_a_token_is_refused_the_moment_it_expires_though_it_is_remembered() -> None:
    clock = Clock()
    tokens = static_verifier(clock)
    token = sign("RS256", "r0", exp=NOW + 60)
    assert tokens.identify(token) is tokens.identify(token)  # remembered
    clock.now = NOW + 89.9  # the leeway is 30 s
    tokens.identify(token)
    clock.now = NOW + 90
    with pytest.raises(Unauthorized, match="expired"):
        tokens.identify(token)


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"tier": "platinum"}, "enterprise, paid, free"),
        ({"tier": None}, "names no tier"),
        ({"tier": 0}, "not a tier"),
        ({"tier": ["paid"]}, "not a tier"),
        ({"tenant": None}, "names no tenant"),
        ({"tenant": ""}, "names no tenant"),
        ({"tenant": "a\nb"}, "names no tenant"),
        ({"tenant": "x" * 129}, "names no tenant"),
        ({"tenant": 7}, "names no tenant"),
    ],
)
def test_a_verified_token_without_a_tenant_or_a_known_tier_is_forbidden(
    claims: dict[str, Any], message: str
) -> None:
    with pytest.raises(Forbidden, match=message):
        static_verifier(Clock()).identify(sign("RS256", "r0", **claims))


def test_no_refusal_quotes_the_token() -> None:
    tokens = static_verifier(Clock())
    for make in FORGED.values():
        token = make().decode(errors="replace")
        with pytest.raises(Unauthorized) as refused:
            tokens.identify(make())
        words = f"{refused.value.message} {refused.value.details} {refused.value!r}"
        assert not any(len(piece) > 8 and piece in words for piece in token.split("."))
