"""What is kept of an API key, and the contract of a store of API keys. The stores are `adapters/api_keys/file.py`,
`adapters/api_keys/postgres.py` and `adapters/redis/records/api_keys.py`. A server reads them (`watch.py`), and
`penstock keys` changes them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """An API key without its secret. Times are seconds since the epoch."""

    id: str
    tenant: str
    tier: str
    created: float
    salt: bytes = field(repr=False)
    digest: bytes = field(repr=False)  # of the salt and the secret
    expires: float | None = None
    revoked: float | None = None
    note: str = ""

    def state(self, now: float) -> str:
        """Returns `active`, `expired` or `revoked`."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "active"


class KeyStore(Protocol):
    """A store of API keys. Its methods raise StoreDown if it cannot be reached, and UserMistake for what the
    operator can put right."""

    async def version(self) -> object:
        """Returns a value that changes when the records change. It is cheap to ask for."""
        ...

    async def load(self) -> Sequence[KeyRecord]:
        """Returns all records, revoked ones included."""
        ...

    async def add(self, record: KeyRecord) -> None: ...

    async def revoke(self, key_id: str) -> KeyRecord:
        """Revokes a key for good, and returns its record. Raises UserMistake for an unknown one."""
        ...

    async def close(self) -> None:
        """Closes connections and files. Never raises."""
        ...
