"""How many things, and how many bytes, each tenant holds in a store that is bounded. `penstock.share` has the
rules.

The stores are `runtime.tasks`, `.idempotency` and `.dead_letters`; each has a `Shares`. A store asks `full` before
it takes a thing in, or `overgrown` and `overfull` afterwards, and forgets what it may until there is room. Only a
thing that was taken may grow or be given back; nothing here checks that.
"""

from penstock.share import LITTLE, RESERVED, Full


class Shares:
    __slots__ = ("_held", "_most", "_most_bytes", "_share", "bytes", "number")

    def __init__(self, most: int, most_bytes: int, share: float = 1.0) -> None:
        """`most`, `most_bytes`: what all tenants may hold together. `share`: the part of each that one may hold."""
        self._most, self._most_bytes, self._share = most, most_bytes, share
        self._held: dict[str, tuple[int, int]] = {}  # by tenant, how many things it holds and how many bytes
        self.number = 0
        self.bytes = 0

    def held(self, tenant: str) -> tuple[int, int]:
        """How many things a tenant holds, and how many bytes."""
        return self._held.get(tenant, (0, 0))

    def take(self, tenant: str, size: int) -> None:
        """Note that a tenant holds one thing more. This does not check whether there is room."""
        self._add(tenant, 1, size)

    def give(self, tenant: str, size: int) -> None:
        """Note that a tenant no longer holds a thing. `size`: what the thing counts for now."""
        self._add(tenant, -1, -size)

    def grow(self, tenant: str, size: int) -> None:
        """Note that one of a tenant's things has become larger by `size`, or smaller."""
        self._add(tenant, 0, size)

    def full(self, tenant: str, size: int) -> Full | None:
        """Why there is no room for one more thing of this size, or None if there is."""
        number, held = self.held(tenant)
        return self._full(tenant, number + 1, held + size, self.number + 1, self.bytes + size, grown=False)

    def overgrown(self, tenant: str) -> Full | None:
        """Why a tenant holds too much now, or None if it does not."""
        return self._full(tenant, *self.held(tenant), self.number, self.bytes, grown=True)

    @property
    def overfull(self) -> bool:
        """Whether all tenants together hold too much."""
        return self.number > self._most or self.bytes > self._most_bytes

    def _full(
        self, tenant: str, number: int, held: int, all_things: int, all_bytes: int, *, grown: bool
    ) -> Full | None:
        most, most_bytes = self._most, self._most_bytes
        little = number <= 1 or (number <= most / LITTLE and held <= most_bytes / LITTLE)
        if tenant and self._share < 1.0 and not little:
            if number > self._share * most or held > self._share * most_bytes:
                return Full.TENANT
            open_to_it = 1.0 - RESERVED
            if all_things > open_to_it * most or all_bytes > open_to_it * most_bytes:
                return Full.TOTAL
        if tenant and grown and little:
            return None
        return Full.TOTAL if all_things > most or all_bytes > most_bytes else None

    def _add(self, tenant: str, things: int, size: int) -> None:
        number, held = self.held(tenant)
        self.number += things
        self.bytes += size
        if number + things:
            self._held[tenant] = (number + things, held + size)
        else:
            del self._held[tenant]
