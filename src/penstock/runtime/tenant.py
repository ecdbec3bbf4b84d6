"""Who asks, in the gateway's terms: a *standing*, which is the tenant, the rank of its tier, and its account.

A standing is found out once for each identity, and kept with it. For clients that only send a `client_id` it is
kept under that. The gateway has the `Standings`. `release` is called when a request no longer counts as in flight:
by the gateway, by a reservation, or by `collapse.flights`.
"""

from collections.abc import Callable, Sequence

from penstock.quota import Limiter, Limits
from penstock.types import Accepted, Identity, Standing

# Returns the tenant and the rank of its tier, given a client_id or an identity, if any.
Tenants = Callable[[str | None, Identity | None], tuple[str, int]]

MOST = 10_000  # client ids; if there are more, all are forgotten, and those in use are soon back


class Standings:
    """Who asks, for one gateway."""

    def __init__(self, tenants: Tenants, limiter: Limiter | None, limits: Sequence[Limits | None]) -> None:
        """`limits`: what each tenant of a tier may ask, by the tier's rank; `limiter` enforces them."""
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
        """Find a standing out. Its account is None if nothing limits what the tenant may ask."""
        tenant, tier = self._tenants(client_id, identity)
        limits = self._limits[tier] if self._limits else None
        if limits is None:
            return tenant, tier, None
        assert self._limiter is not None
        return tenant, tier, self._limiter.account(tenant, limits)


def release(request: Accepted, now: float, *, refused: bool) -> None:
    """Note in its tenant's account that a request is no longer in flight. `refused`: it does not count for the
    minute either."""
    if request.account is not None:
        request.account.release(now, refused=refused)
