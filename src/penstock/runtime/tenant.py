"""Who asks, in the gateway's terms: the tenant, the rank of its tier, the account it is held to.

Found out once for each identity, and kept with it; for those who only say who they are, by that name.
The gateway keeps the `Standings`. What lets go of a request calls `release`: the gateway, a reservation, a flight.
"""

from collections.abc import Callable, Sequence

from penstock.quota import Limiter, Limits
from penstock.types import Accepted, Identity, Standing

# Of a client_id or an identity, if any: the tenant and the rank of its tier.
Tenants = Callable[[str | None, Identity | None], tuple[str, int]]

MOST = 10_000  # names; with one more, all are forgotten, and those in use are soon back


class Standings:
    def __init__(self, tenants: Tenants, limiter: Limiter | None, limits: Sequence[Limits | None]) -> None:
        """`limits`: of each tenant of a tier, by rank; `limiter` keeps them to it."""
        self._tenants = tenants
        self._limiter = limiter
        self._limits = limits
        self._by_name: dict[str, Standing] = {}
        self.anonymous = self._find(None, None)

    def of_identity(self, identity: Identity) -> Standing:
        standing = identity.standing
        if standing is None:
            standing = identity.standing = self._find(None, identity)
        return standing

    def of_name(self, client_id: str) -> Standing:
        standing = self._by_name.get(client_id)
        if standing is None:
            if len(self._by_name) >= MOST:
                self._by_name.clear()
            standing = self._by_name[client_id] = self._find(client_id, None)
        return standing

    def of(self, client_id: str | None, identity: Identity | None) -> Standing:
        if identity is not None:
            return self.of_identity(identity)
        return self.anonymous if client_id is None else self.of_name(client_id)

    def _find(self, client_id: str | None, identity: Identity | None) -> Standing:
        tenant, tier = self._tenants(client_id, identity)
        limits = self._limits[tier] if self._limits else None
        if limits is None:
            return tenant, tier, None
        assert self._limiter is not None
        return tenant, tier, self._limiter.account(tenant, limits)


def release(request: Accepted, now: float, *, refused: bool) -> None:
    """Give a request's place in its tenant's account back. `refused`: nor does it count for the minute."""
    if request.account is not None:
        request.account.release(now, refused=refused)
