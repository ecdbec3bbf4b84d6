"""Tokens that must not be taken: whatever they say of themselves, and whatever they are made of."""

import json
from collections.abc import Callable
from typing import Any

from token_kit import SECRET, claims_at, jwk, part, pem, sign, signed_parts, with_hmac

NONE = {"alg": "none", "typ": "JWT"}
RSA = {"alg": "RS256", "typ": "JWT", "kid": "r0"}


def swapped(first: bytes, second: bytes) -> bytes:
    """The first token with the signature of the second."""
    return first.rpartition(b".")[0] + b"." + second.rpartition(b".")[2]


def flipped(token: bytes, place: int) -> bytes:
    """With another letter there, one bit away."""
    alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    other = alphabet.index(token[place]) ^ 1
    return token[:place] + alphabet[other : other + 1] + token[place + 1 :]


def forged(now: float) -> dict[str, Callable[[], bytes]]:
    """To be tried on a server that knows r0, e0 and d0, and h0 if any secret, at this time."""
    claims = claims_at(now)

    def signed(algorithm: str, kid: str | None, number: int = 0, **said: Any) -> bytes:
        return sign(algorithm, kid, number, at=now, **said)

    def good() -> bytes:
        return signed("RS256", "r0")

    def embedded(header: dict[str, object]) -> bytes:
        """Signed by the attacker's key, which the header brings along or says where to find."""
        return signed_parts({"alg": "RS256", "typ": "JWT", **header}, claims, number=1)

    def twice(name: str, second: str) -> bytes:
        text = json.dumps(claims)[:-1] + f', "{name}": {second}}}'
        return signed_parts(RSA, text.encode())

    return {
        # no signature
        "alg none": lambda: part(NONE) + b"." + part(claims) + b".",
        "alg none with a kid": lambda: part({**NONE, "kid": "r0"}) + b"." + part(claims) + b".",
        "alg None": lambda: part({**NONE, "alg": "None"}) + b"." + part(claims) + b".",
        "alg nOnE with a signature": lambda: swapped(
            part({**NONE, "alg": "nOnE"}) + b"." + part(claims) + b".x", good()
        ),
        "alg empty": lambda: part({"alg": "", "kid": "r0"}) + b"." + part(claims) + b"." + part(b"x"),
        "alg missing": lambda: signed_parts({"typ": "JWT", "kid": "r0"}, claims),
        "alg null": lambda: signed_parts({"alg": None, "kid": "r0"}, claims),
        "alg a list": lambda: signed_parts({"alg": ["RS256"], "kid": "r0"}, claims),
        "signature missing": lambda: good().rpartition(b".")[0],
        "signature empty": lambda: good().rpartition(b".")[0] + b".",
        # one algorithm for another
        "HS256 with the RSA key as secret": lambda: with_hmac(
            {"alg": "HS256", "kid": "r0"}, claims, pem("RS256")
        ),
        "HS256 with the RSA key, no kid": lambda: with_hmac({"alg": "HS256"}, claims, pem("RS256")),
        "HS256 with the RSA key, the secret's kid": lambda: with_hmac(
            {"alg": "HS256", "kid": "h0"}, claims, pem("RS256").strip()
        ),
        "HS256 with the JWK as secret": lambda: with_hmac(
            {"alg": "HS256", "kid": "r0"}, claims, json.dumps(jwk("RS256", "r0")).encode()
        ),
        "HS256 with the EC key as secret": lambda: with_hmac(
            {"alg": "HS256", "kid": "e0"}, claims, pem("ES256")
        ),
        "HS256 with an empty secret": lambda: with_hmac({"alg": "HS256", "kid": "h0"}, claims, b""),
        "HS256 with another secret": lambda: with_hmac({"alg": "HS256", "kid": "h0"}, claims, SECRET + b"!"),
        "RS256 said of an ES256 signature": lambda: signed_parts(RSA, claims, "ES256"),
        "ES256 said with the RSA key's kid": lambda: signed_parts(
            {"alg": "ES256", "kid": "r0"}, claims, "RS256"
        ),
        "ES256 with a signature of zeros": lambda: (
            part({"alg": "ES256", "kid": "e0"}) + b"." + part(claims) + b"." + part(bytes(64))
        ),
        "RS512, which is not among ours": lambda: signed_parts({"alg": "RS512", "kid": "r0"}, claims),
        "alg in small letters": lambda: signed_parts({"alg": "rs256", "kid": "r0"}, claims),
        # another key
        "another key under our kid": lambda: signed("RS256", "r0", 1),
        "an unknown kid": lambda: signed("RS256", "r9", 1),
        "an unknown kid, our key": lambda: signed("RS256", "r9"),
        "a kid that is a path": lambda: signed("RS256", "../../dev/null", 1),
        "a kid that is a number": lambda: signed_parts({**RSA, "kid": 0}, claims),
        "a kid that is empty": lambda: signed_parts({**RSA, "kid": ""}, claims),
        "an embedded jwk": lambda: embedded({"jwk": jwk("RS256", "r0", 1), "kid": "r0"}),
        "an embedded jwk without a kid": lambda: embedded({"jwk": jwk("RS256", "r0", 1)}),
        "a jku": lambda: embedded({"jku": "http://127.0.0.1:1/keys", "kid": "r1"}),
        "an x5u": lambda: embedded({"x5u": "http://127.0.0.1:1/cert", "kid": "r0"}),
        "an x5c": lambda: embedded({"x5c": ["MIIB"], "kid": "r0"}),
        # times, issuer, audience
        "expired": lambda: signed("RS256", "r0", exp=now - 31),
        "no exp": lambda: signed("RS256", "r0", exp=None),
        "exp a text": lambda: signed("RS256", "r0", exp=str(int(now + 600))),
        "exp true": lambda: signed_parts(RSA, {**claims, "exp": True}),
        "exp in milliseconds": lambda: signed("RS256", "r0", exp=int(now * 1000)),
        "exp infinite": lambda: signed_parts(RSA, json.dumps({**claims, "exp": float("inf")}).encode()),
        "exp of 400 digits": lambda: signed_parts(RSA, {**claims, "exp": 10**400}),
        "nbf true": lambda: signed_parts(RSA, {**claims, "nbf": True}),
        "nbf in the future": lambda: signed("RS256", "r0", nbf=now + 31),
        "iat in the future": lambda: signed("RS256", "r0", iat=now + 31),
        "another issuer": lambda: signed("RS256", "r0", iss="https://id.test.evil"),
        "no issuer": lambda: signed("RS256", "r0", iss=None),
        "issuers in a list": lambda: signed_parts(RSA, {**claims, "iss": ["https://id.test"]}),
        "another audience": lambda: signed("RS256", "r0", aud="penstock2"),
        "no audience": lambda: signed("RS256", "r0", aud=None),
        "audiences without ours": lambda: signed("RS256", "r0", aud=["a", "b"]),
        "an audience that holds ours": lambda: signed_parts(RSA, {**claims, "aud": {"penstock": 1}}),
        # the form
        "truncated": lambda: good()[:-20],
        "truncated claims": lambda: b".".join(
            (good().split(b".")[0], good().split(b".")[1][:-8], good().split(b".")[2])
        ),
        "claims changed": lambda: swapped(
            part(RSA) + b"." + part({**claims, "tier": "enterprise"}) + b".x", signed("RS256", "r0")
        ),
        "signatures swapped": lambda: swapped(signed("RS256", "r0", tenant="evil"), good()),
        # the same signature, written with other bits where base64 has bits to spare
        "a twin of the signature": lambda: flipped(good(), len(good()) - 1),
        "padding": lambda: good() + b"==",
        "four parts": lambda: good() + b"." + part(b"more"),
        "five parts, encrypted": lambda: b".".join(
            [part({"alg": "dir", "enc": "A128GCM"}), *[part(b"x")] * 4]
        ),
        "huge": lambda: signed("RS256", "r0", filler="x" * 9000),
        "not ASCII": lambda: good()[:-4] + "é".encode() + good()[-4:],
        "a newline inside": lambda: good()[:50] + b"\n" + good()[50:],
        "NUL at the end": lambda: good() + b"\0",
        "two at once": lambda: good() + b", " + good(),
        "a claim twice": lambda: twice("tier", '"enterprise"'),
        "exp twice": lambda: twice("exp", str(now + 10**6)),
        "alg twice": lambda: signed_parts(b'{"alg": "none", "alg": "RS256", "kid": "r0"}', claims),
        "crit": lambda: signed_parts({**RSA, "crit": ["exp"], "exp": now}, claims),
        "crit empty": lambda: signed_parts({**RSA, "crit": []}, claims),
        "b64 false": lambda: signed_parts({**RSA, "b64": False, "crit": ["b64"]}, claims),
        "a token for another purpose": lambda: signed_parts({**RSA, "typ": "logout+jwt"}, claims),
        "a header that is a list": lambda: signed_parts([RSA], claims),
        "claims that are a list": lambda: signed_parts(RSA, [claims]),
        "claims in UTF-16": lambda: signed_parts(RSA, json.dumps(claims).encode("utf-16")),
        "a header in UTF-16": lambda: signed_parts(json.dumps(RSA).encode("utf-16"), claims),
        "a header of brackets": lambda: part(b"[" * 5000) + b"." + part(claims) + b"." + part(b"x"),
        "nothing": lambda: b"",
        "dots": lambda: b"..",
        # what looks alike
        "one bit of the signature flipped": lambda: flipped(good(), good().rindex(b".") + 100),
        "one bit of the claims flipped": lambda: flipped(good(), good().index(b".") + 40),
        "one bit of the header flipped": lambda: flipped(good(), 12),
        "the issuer with a slash more": lambda: signed("RS256", "r0", iss="https://id.test/"),
        "the issuer in large letters": lambda: signed("RS256", "r0", iss="HTTPS://ID.TEST"),
        "the audience with a letter of another script": lambda: signed("RS256", "r0", aud="pеnstock"),
        "the audience in wide letters": lambda: signed("RS256", "r0", aud="ｐｅｎｓｔｏｃｋ"),
        "a kid that is an address": lambda: signed("RS256", "https://evil.test/keys", 1),
        "a kid that is a query": lambda: signed("RS256", "r0' UNION SELECT 'x", 1),
        "a kid with a NUL": lambda: signed("RS256", "r0\0", 1),
        "a kid in wide letters": lambda: signed("RS256", "ｒ０"),
    }
