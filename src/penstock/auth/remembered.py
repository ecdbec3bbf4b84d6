"""Credentials that were verified, so that none is verified twice. API keys (`keys.py`) and tokens (`jwt.py`) have a
`Remembered` each, in which a credential is looked up before anything is hashed or verified. Pure."""

from collections.abc import Callable
from math import inf

from penstock.auth.identity import Identity

MOST = 100_000  # credentials
MOST_BYTES = 32 * 2**20  # of all credentials


class Remembered:
    """The identity of each verified credential. If there are too many, the oldest is forgotten. Only verified
    credentials are kept, so strangers cannot push anyone out."""

    def __init__(self, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._known: dict[bytes, Identity] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._known)

    def find(self, credential: bytes, clock: Callable[[], float]) -> Identity | None:
        """Returns whose credential it is; None if it is not known, or has expired. `clock` is only read for a
        credential that expires at all."""
        identity = self._known.get(credential)
        if identity is not None and identity.expires < inf and identity.expires <= clock():
            self._forget(credential)
            return None
        return identity

    def keep(self, credential: bytes, identity: Identity) -> None:
        """Remembers a credential that was verified."""
        if credential not in self._known:
            self._bytes += len(credential)
        self._known[credential] = identity
        while len(self._known) > self._most or self._bytes > self._most_bytes:
            self._forget(next(iter(self._known)))

    def find_out_again(self) -> None:
        """Let the standing of each identity be found out again, since tiers or quotas have changed."""
        for identity in self._known.values():
            identity.standing = None

    def forget(self, stale: Callable[[Identity], bool]) -> None:
        """Forgets the credentials of all identities for which `stale` returns True."""
        for credential in [each for each, identity in self._known.items() if stale(identity)]:
            self._forget(credential)

    def _forget(self, credential: bytes) -> None:
        del self._known[credential]
        self._bytes -= len(credential)
