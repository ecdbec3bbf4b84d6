"""What is kept of an API key, and what a store of API keys must do (a file, PostgreSQL, Redis)."""

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
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and self.expires <= now else "active"


class KeyStore(Protocol):
    """Its methods raise StoreDown if it cannot be reached, and UserMistake for what the operator can put right."""

    async def version(self) -> object:
        """Something that is another when the records are others; cheap to ask for."""
        ...

    async def load(self) -> Sequence[KeyRecord]:
        """All records, revoked ones included."""
        ...

    async def add(self, record: KeyRecord) -> None: ...

    async def revoke(self, key_id: str) -> KeyRecord:
        """Revokes a key for good. Raises UserMistake for an unknown one."""
        ...

    async def close(self) -> None:
        """Closes what it has open. Never raises."""
        ...
