"""What is kept of an API key, and what a place that keeps it must be able to do."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """Everything but the secret. Times are seconds since the epoch."""

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
    """Raises StoreDown when it cannot be reached, UserMistake for what the operator can put right."""

    async def version(self) -> object:
        """Cheap to ask, and different when the records are."""
        ...

    async def load(self) -> Sequence[KeyRecord]:
        """All of them; those revoked as well."""
        ...

    async def add(self, record: KeyRecord) -> None: ...

    async def revoke(self, key_id: str) -> KeyRecord:
        """From now on; there is no way back. Raises UserMistake for a key nobody knows."""
        ...

    async def close(self) -> None:
        """Let go of what is its own; never raises."""
        ...
