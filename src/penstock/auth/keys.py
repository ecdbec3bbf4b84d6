"""API keys: `pk_<id>_<secret>`, shown once and kept as a salted SHA-256. `penstock keys` makes them;
`authenticator.py` asks the `KeyRing` for each request that comes with one.

The secret is 256 random bits, so a fast hash is as good as a slow one: nobody can guess the secret from a
dictionary. A key is hashed the first time it is seen; from then on it is looked up in a table. An unknown id, a
wrong secret, a revoked and an expired key get the same message after the same work, so that nobody can tell them
apart.
"""

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from hashlib import sha256
from hmac import compare_digest
from math import inf
from secrets import choice, token_bytes

from penstock.auth.identity import Identity, is_name
from penstock.auth.records import KeyRecord
from penstock.auth.remembered import Remembered
from penstock.errors import Forbidden, Unauthorized, UserMistake

PREFIX = "pk_"
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
ID_LENGTH = 12  # characters
SECRET_LENGTH = 43  # characters of 62 kinds: 256 bits
LENGTH = len(PREFIX) + ID_LENGTH + 1 + SECRET_LENGTH  # characters of a whole key
LONGEST_NOTE = 256  # characters
NOT_VALID = "the API key is not valid"


def make_key(
    tenant: str, tier: str, now: float, lifetime: float | None = None, note: str = ""
) -> tuple[str, KeyRecord]:
    """Returns a new key, which is shown once, and the record that is kept of it."""
    if not is_name(tenant):
        raise UserMistake("a tenant's name is 1 to 128 printable characters, without spaces around them")
    if len(note) > LONGEST_NOTE or (note and not note.isprintable()):
        raise UserMistake(f"a note is one line of at most {LONGEST_NOTE} characters")
    key_id, secret, salt = _random(ID_LENGTH), _random(SECRET_LENGTH), token_bytes(16)
    expires = None if lifetime is None else now + lifetime
    record = KeyRecord(key_id, tenant, tier, now, salt, _digest(salt, secret.encode()), expires, note=note)
    return f"{PREFIX}{key_id}_{secret}", record


def id_of(text: str) -> str:
    """Returns the id of a key from the text that a person gave: the id alone, the id with the prefix, or the whole
    key."""
    return text.strip().removeprefix(PREFIX).partition("_")[0]


class KeyRing:
    """All keys, in memory, so that they are known while the store is away. `watch.py` keeps them up to date."""

    def __init__(self, tiers: Collection[str], now: Callable[[], float] = time.time) -> None:
        self._tiers = tiers
        self.now = now
        self._records: dict[bytes, KeyRecord] = {}  # by id
        self.remembered = Remembered()
        # Stands in for an unknown key, which must cost as much work as a known one.
        self._nobody = KeyRecord("", "", "", 0.0, token_bytes(16), token_bytes(32))

    def __len__(self) -> int:
        return len(self._records)

    def replace(self, records: Iterable[KeyRecord]) -> None:
        """Takes these records in place of the present ones. A revoked key stays revoked, even if the store has lost
        that meanwhile."""
        old, new = self._records, {}
        for record in records:
            known = old.get(record.id.encode())
            if known is not None and known.revoked is not None and record.revoked is None:
                record = replace(record, revoked=known.revoked)
            new[record.id.encode()] = record
        changed = {record.id for name, record in old.items() if new.get(name) != record}
        self._records = new
        if changed:
            self.remembered.forget(lambda identity: identity.key_id in changed)

    def identify(self, credential: bytes) -> Identity:
        """Returns whose key it is. Raises Unauthorized for a key that is not valid, Forbidden for one of a tier
        that is not known here."""
        identity = self.remembered.find(credential, self.now)
        return identity if identity is not None else self._verify(credential, self.now())

    def _verify(self, credential: bytes, now: float) -> Identity:
        if len(credential) != LENGTH:
            raise Unauthorized(NOT_VALID)
        middle = len(PREFIX) + ID_LENGTH
        record = self._records.get(credential[len(PREFIX) : middle], self._nobody)
        digest = _digest(record.salt, credential[middle + 1 :])
        right = compare_digest(digest, record.digest) & credential.startswith(PREFIX.encode())
        right &= credential[middle : middle + 1] == b"_"
        if not (right & (record.state(now) == "active")):
            raise Unauthorized(NOT_VALID)
        if record.tier not in self._tiers:
            raise Forbidden(f"this API key is of the tier {record.tier!r}, which this server does not have")
        expires = inf if record.expires is None else record.expires
        identity = Identity(record.tenant, record.tier, record.id, expires)
        self.remembered.keep(credential, identity)
        return identity


def _random(length: int) -> str:
    return "".join(choice(ALPHABET) for _ in range(length))


def _digest(salt: bytes, secret: bytes) -> bytes:
    return sha256(salt + secret).digest()
