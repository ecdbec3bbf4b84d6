"""Keys that tokens are verified with: those of the configuration, and those that a provider publishes
(`provider.py`). The verifier (`jwt.py`) looks up here which key a token must have.

The kind of a key decides the one algorithm for which it is good. So a token cannot choose: its `alg` must be that
of the key it names, a public key is never used as a secret, and no key is for `none`. Secrets come from the
operator alone; a secret in a provider's list is ignored.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import UserMistake

ALGORITHMS = ("HS256", "RS256", "ES256", "EdDSA")
SHORTEST_SECRET = 32  # bytes
SHORTEST_RSA = 2048  # bits
MOST_KEYS = 100  # of one provider
MOST_TRIED = 4  # keys that are tried for a token that names none

# For each algorithm: the fields by which a JWK for it is known, and the fields that make the key.
_OFFERED = {
    "RS256": ({"kty": "RSA"}, ("n", "e")),
    "ES256": ({"kty": "EC", "crv": "P-256"}, ("x", "y")),
    "EdDSA": ({"kty": "OKP", "crv": "Ed25519"}, ("x",)),
}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class VerifyingKey:
    """A key that is ready for use."""

    algorithm: str
    kid: str | None
    key: Any = field(repr=False)  # bytes for HS256, a public key of `cryptography` for the others
    made_of: object = field(default=None, repr=False)  # equal if two are the same key

    def has_signed(self, text: bytes, signature: bytes) -> bool:
        """Returns whether the signature is this key's under the text."""
        from jwt import get_algorithm_by_name

        return get_algorithm_by_name(self.algorithm).verify(text, self.key, signature)

    @property
    def name(self) -> str:
        """The key's name in logs."""
        return f"jwt:{self.kid[:64]}" if self.kid is not None and self.kid.isprintable() else "jwt"


@dataclass(frozen=True, slots=True)
class StaticKey:
    """A key from the configuration."""

    algorithm: str
    material: bytes = field(repr=False)  # a secret for HS256, a public key in PEM for the others
    kid: str | None = None  # None: good for any token of its algorithm, whatever key it names

    def load(self) -> VerifyingKey:
        """Returns the key, ready for use. Raises UserMistake if it is not one for its algorithm."""
        need_pyjwt()
        if self.algorithm == "HS256":
            return VerifyingKey("HS256", self.kid, _secret(self.material), self.material)
        return VerifyingKey(self.algorithm, self.kid, _public(self.algorithm, self.material), self.material)


class KeySet:
    """The keys that a token may be verified with, found by its `kid` and `alg`."""

    def __init__(self, keys: Iterable[VerifyingKey] = ()) -> None:
        self.keys = tuple(keys)
        self._found: dict[tuple[str | None, str], list[VerifyingKey]] = {}
        self._by_algorithm: dict[str, list[VerifyingKey]] = {}
        for key in self.keys:
            self._found.setdefault((key.kid, key.algorithm), []).append(key)
            self._by_algorithm.setdefault(key.algorithm, []).append(key)

    def find(self, kid: str | None, algorithm: str) -> Sequence[VerifyingKey]:
        """Returns the keys to try for a token; none if no key fits. `kid`: the key that the token names, if any."""
        if kid is None:
            found = self._by_algorithm.get(algorithm, [])
        else:
            found = self._found.get((kid, algorithm)) or self._found.get((None, algorithm), [])
        return found[:MOST_TRIED]

    def lacks(self, older: "KeySet") -> bool:
        """Returns whether a key of the older set is missing here."""
        mine = {(key.algorithm, key.kid, key.made_of) for key in self.keys}
        return any((key.algorithm, key.kid, key.made_of) not in mine for key in older.keys)


def offered_keys(document: object) -> list[VerifyingKey]:
    """Returns the usable keys of a provider's JWK set. Raises ValueError if there is none."""
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise ValueError("it is not a JWK set")
    keys = [key for each in listed[:MOST_KEYS] if isinstance(each, dict) and (key := _offered(each))]
    if not keys:
        raise ValueError("it has no key that can be used")
    return keys


def _offered(jwk: Mapping[str, Any]) -> VerifyingKey | None:
    """Returns the key of a JWK; None if it is for another use, of another kind, private, broken or too short."""
    from jwt import PyJWK, PyJWTError

    algorithm = _algorithm_of(jwk)
    if algorithm is None or not _for_verifying(jwk, algorithm):
        return None
    kind, names = _OFFERED[algorithm]
    parts = {name: jwk.get(name) for name in names}
    try:
        if not all(isinstance(part, str) for part in parts.values()):
            raise ValueError("a part is missing")
        key = PyJWK({**kind, **parts}, algorithm).key
    except (PyJWTError, ValueError):
        _log.warning("a key of the identity provider is broken, and not used")
        return None
    if algorithm == "RS256" and key.key_size < SHORTEST_RSA:
        _log.warning("a key of the identity provider is shorter than %d bits, and not used", SHORTEST_RSA)
        return None
    return VerifyingKey(algorithm, jwk.get("kid"), key, tuple(parts.values()))


def _algorithm_of(jwk: Mapping[str, Any]) -> str | None:
    for algorithm, (kind, _) in _OFFERED.items():
        if all(jwk.get(name) == value for name, value in kind.items()):
            return algorithm
    return None


def _for_verifying(jwk: Mapping[str, Any], algorithm: str) -> bool:
    operations, kid = jwk.get("key_ops", ["verify"]), jwk.get("kid")
    if jwk.get("alg", algorithm) != algorithm or jwk.get("use", "sig") != "sig" or "d" in jwk:
        return False
    return isinstance(operations, list) and "verify" in operations and (kid is None or isinstance(kid, str))


def _secret(material: bytes) -> bytes:
    if b"-----BEGIN" in material or material.lstrip().startswith((b"{", b"ssh-")):
        raise UserMistake("a public key cannot be the secret of HS256: it is known to everybody")
    if len(material) < SHORTEST_SECRET:
        raise UserMistake(f"the secret of HS256 has {len(material)} bytes: use at least {SHORTEST_SECRET}")
    return material


def _public(algorithm: str, material: bytes) -> object:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(material)
    except ValueError:
        raise UserMistake(f"the key for {algorithm} is not a public key in PEM") from None
    if algorithm == "RS256" and isinstance(key, rsa.RSAPublicKey):
        if key.key_size < SHORTEST_RSA:
            raise UserMistake(f"the key for RS256 has {key.key_size} bits: use at least {SHORTEST_RSA}")
        return key
    if algorithm == "ES256" and isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name == "secp256r1":
        return key
    if algorithm == "EdDSA" and isinstance(key, ed25519.Ed25519PublicKey):
        return key
    known = ", ".join(ALGORITHMS)
    raise UserMistake(
        f"this key is not one for {algorithm}: each algorithm has its own kind, known are {known}"
    )


def need_pyjwt() -> None:
    """Raises UserMistake if the libraries for tokens are not installed."""
    try:
        import cryptography  # noqa: F401
        import jwt  # noqa: F401
    except ImportError:
        raise UserMistake("tokens need the jwt extra: pip install 'penstock[jwt]'") from None
