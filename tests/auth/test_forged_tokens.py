"""No forged token is taken (F3): whatever it says of itself, and whatever it is made of."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from token_kit import (
    GOOD,
    NOW,
    SECRET,
    Clock,
    jwk,
    part,
    pem,
    sign,
    signed_parts,
    static_verifier,
    with_hmac,
)

from penstock.auth.authenticator import Authenticator
from penstock.errors import Forbidden, Unauthorized

NONE = {"alg": "none", "typ": "JWT"}
RSA = {"alg": "RS256", "typ": "JWT", "kid": "r0"}


def swapped(first: bytes, second: bytes) -> bytes:
    """The first token with the signature of the second."""
    return first.rpartition(b".")[0] + b"." + second.rpartition(b".")[2]


def good() -> bytes:
    return sign("RS256", "r0")


def twin() -> bytes:
    """The same signature, written with other bits where base64 has bits to spare."""
    token = good()
    alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    spare = alphabet.index(token[-1]) ^ 1
    return token[:-1] + alphabet[spare : spare + 1]


def embedded(header: dict[str, object]) -> bytes:
    """Signed by the attacker's key, which the header brings along or says where to find."""
    return signed_parts({"alg": "RS256", "typ": "JWT", **header}, GOOD, number=1)


def twice(name: str, second: str) -> bytes:
    text = json.dumps(GOOD)[:-1] + f', "{name}": {second}}}'
    return signed_parts(RSA, text.encode())


FORGED: dict[str, Callable[[], bytes]] = {
    # no signature
    "alg none": lambda: part(NONE) + b"." + part(GOOD) + b".",
    "alg none with a kid": lambda: part({**NONE, "kid": "r0"}) + b"." + part(GOOD) + b".",
    "alg None": lambda: part({**NONE, "alg": "None"}) + b"." + part(GOOD) + b".",
    "alg nOnE with a signature": lambda: swapped(
        part({**NONE, "alg": "nOnE"}) + b"." + part(GOOD) + b".x", good()
    ),
    "alg empty": lambda: part({"alg": "", "kid": "r0"}) + b"." + part(GOOD) + b"." + part(b"x"),
    "alg missing": lambda: signed_parts({"typ": "JWT", "kid": "r0"}, GOOD),
    "alg null": lambda: signed_parts({"alg": None, "kid": "r0"}, GOOD),
    "alg a list": lambda: signed_parts({"alg": ["RS256"], "kid": "r0"}, GOOD),
    "signature missing": lambda: good().rpartition(b".")[0],
    "signature empty": lambda: good().rpartition(b".")[0] + b".",
    # one algorithm for another
    "HS256 with the RSA key as secret": lambda: with_hmac({"alg": "HS256", "kid": "r0"}, GOOD, pem("RS256")),
    "HS256 with the RSA key, no kid": lambda: with_hmac({"alg": "HS256"}, GOOD, pem("RS256")),
    "HS256 with the RSA key, the secret's kid": lambda: with_hmac(
        {"alg": "HS256", "kid": "h0"}, GOOD, pem("RS256").strip()
    ),
    "HS256 with the JWK as secret": lambda: with_hmac(
        {"alg": "HS256", "kid": "r0"}, GOOD, json.dumps(jwk("RS256", "r0")).encode()
    ),
    "HS256 with the EC key as secret": lambda: with_hmac({"alg": "HS256", "kid": "e0"}, GOOD, pem("ES256")),
    "HS256 with an empty secret": lambda: with_hmac({"alg": "HS256", "kid": "h0"}, GOOD, b""),
    "HS256 with another secret": lambda: with_hmac({"alg": "HS256", "kid": "h0"}, GOOD, SECRET + b"!"),
    "RS256 said of an ES256 signature": lambda: signed_parts(RSA, GOOD, "ES256"),
    "ES256 said with the RSA key's kid": lambda: signed_parts({"alg": "ES256", "kid": "r0"}, GOOD, "RS256"),
    "ES256 with a signature of zeros": lambda: (
        part({"alg": "ES256", "kid": "e0"}) + b"." + part(GOOD) + b"." + part(bytes(64))
    ),
    "RS512, which is not among ours": lambda: signed_parts({"alg": "RS512", "kid": "r0"}, GOOD),
    "alg in small letters": lambda: signed_parts({"alg": "rs256", "kid": "r0"}, GOOD),
    # another key
    "another key under our kid": lambda: sign("RS256", "r0", 1),
    "an unknown kid": lambda: sign("RS256", "r9", 1),
    "an unknown kid, our key": lambda: sign("RS256", "r9"),
    "a kid that is a path": lambda: sign("RS256", "../../dev/null", 1),
    "a kid that is a number": lambda: signed_parts({**RSA, "kid": 0}, GOOD),
    "a kid that is empty": lambda: signed_parts({**RSA, "kid": ""}, GOOD),
    "an embedded jwk": lambda: embedded({"jwk": jwk("RS256", "r0", 1), "kid": "r0"}),
    "an embedded jwk without a kid": lambda: embedded({"jwk": jwk("RS256", "r0", 1)}),
    "a jku": lambda: embedded({"jku": "http://127.0.0.1:1/keys", "kid": "r1"}),
    "an x5u": lambda: embedded({"x5u": "http://127.0.0.1:1/cert", "kid": "r0"}),
    "an x5c": lambda: embedded({"x5c": ["MIIB"], "kid": "r0"}),
    # times, issuer, audience
    "expired": lambda: sign("RS256", "r0", exp=NOW - 31),
    "no exp": lambda: sign("RS256", "r0", exp=None),
    "exp a text": lambda: sign("RS256", "r0", exp=str(int(NOW + 600))),
    "exp true": lambda: signed_parts(RSA, {**GOOD, "exp": True}),
    "exp in milliseconds": lambda: sign("RS256", "r0", exp=int(NOW * 1000)),
    "exp infinite": lambda: signed_parts(RSA, json.dumps({**GOOD, "exp": float("inf")}).encode()),
    "exp of 400 digits": lambda: signed_parts(RSA, {**GOOD, "exp": 10**400}),
    "nbf true": lambda: signed_parts(RSA, {**GOOD, "nbf": True}),
    "nbf in the future": lambda: sign("RS256", "r0", nbf=NOW + 31),
    "iat in the future": lambda: sign("RS256", "r0", iat=NOW + 31),
    "another issuer": lambda: sign("RS256", "r0", iss="https://id.test.evil"),
    "no issuer": lambda: sign("RS256", "r0", iss=None),
    "issuers in a list": lambda: signed_parts(RSA, {**GOOD, "iss": ["https://id.test"]}),
    "another audience": lambda: sign("RS256", "r0", aud="penstock2"),
    "no audience": lambda: sign("RS256", "r0", aud=None),
    "audiences without ours": lambda: sign("RS256", "r0", aud=["a", "b"]),
    "an audience that holds ours": lambda: signed_parts(RSA, {**GOOD, "aud": {"penstock": 1}}),
    # the form
    "truncated": lambda: good()[:-20],
    "truncated claims": lambda: b".".join(
        (good().split(b".")[0], good().split(b".")[1][:-8], good().split(b".")[2])
    ),
    "claims changed": lambda: swapped(
        part(RSA) + b"." + part({**GOOD, "tier": "enterprise"}) + b".x", sign("RS256", "r0")
    ),
    "signatures swapped": lambda: swapped(sign("RS256", "r0", tenant="evil"), good()),
    "a twin of the signature": twin,
    "padding": lambda: good() + b"==",
    "four parts": lambda: good() + b"." + part(b"more"),
    "five parts, encrypted": lambda: b".".join([part({"alg": "dir", "enc": "A128GCM"}), *[part(b"x")] * 4]),
    "huge": lambda: sign("RS256", "r0", filler="x" * 9000),
    "not ASCII": lambda: good()[:-4] + "é".encode() + good()[-4:],
    "a newline inside": lambda: good()[:50] + b"\n" + good()[50:],
    "NUL at the end": lambda: good() + b"\0",
    "two at once": lambda: good() + b", " + good(),
    "a claim twice": lambda: twice("tier", '"enterprise"'),
    "exp twice": lambda: twice("exp", str(NOW + 10**6)),
    "alg twice": lambda: signed_parts(b'{"alg": "none", "alg": "RS256", "kid": "r0"}', GOOD),
    "crit": lambda: signed_parts({**RSA, "crit": ["exp"], "exp": NOW}, GOOD),
    "crit empty": lambda: signed_parts({**RSA, "crit": []}, GOOD),
    "b64 false": lambda: signed_parts({**RSA, "b64": False, "crit": ["b64"]}, GOOD),
    "a token for another purpose": lambda: signed_parts({**RSA, "typ": "logout+jwt"}, GOOD),
    "a header that is a list": lambda: signed_parts([RSA], GOOD),
    "claims that are a list": lambda: signed_parts(RSA, [GOOD]),
    "claims in UTF-16": lambda: signed_parts(RSA, json.dumps(GOOD).encode("utf-16")),
    "a header in UTF-16": lambda: signed_parts(json.dumps(RSA).encode("utf-16"), GOOD),
    "a header of brackets": lambda: part(b"[" * 5000) + b"." + part(GOOD) + b"." + part(b"x"),
    "nothing": lambda: b"",
    "dots": lambda: b"..",
}


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
