"""Tiers and tenants by the configuration: who is served first, with which limits, and for how long it may wait."""

from collections.abc import Callable

from penstock.config import Config
from penstock.quota import Limits
from penstock.types import Identity

# Seconds by which a server's own limits differ at least: limits that are alike tell of a client's own time-out
# (`types.has_own_limit`).
HAIR = 1e-6


def tier_names(config: Config) -> list[str]:
    """The names of the tiers, the best first."""
    return [name for name, _ in sorted(config.tiers.levels.items(), key=lambda item: item[1].rank)]


def limits_by_rank(config: Config) -> list[Limits | None]:
    """The limits of each tier, as one object; None for a tier without limits."""
    found: list[Limits | None] = []
    for name in tier_names(config):
        level = config.tiers.levels[name]
        limits = Limits(level.requests_per_minute, level.burst, level.in_flight)
        found.append(limits if limits != Limits() else None)
    return found


def time_limits(config: Config, model: str) -> list[tuple[float, float]]:
    """By tier, the seconds in which a request without limits of its own is to be sent, and answered. A tier's own
    limits beat the model's."""
    limits, levels = config.timeouts_of(model), config.tiers.levels
    found = []
    for tier in tier_names(config):
        queue = levels[tier].queue_timeout or limits.queue
        request = levels[tier].request_timeout or limits.request
        found.append((min(queue, request - HAIR), request))
    return found


def tenants(config: Config) -> Callable[[str | None, Identity | None], tuple[str, int]]:
    """Finds the tenant and the rank of its tier: by what was proved, where proof is asked for, and never by what
    a client says of itself. Elsewhere the configuration says who a client is."""
    ranks = {name: rank for rank, name in enumerate(tier_names(config))}
    default = ranks[config.tiers.default]

    def tenant_of(client_id: str | None, identity: Identity | None) -> tuple[str, int]:
        if identity is not None:
            return identity.tenant, ranks[identity.tier]
        if client_id is None:
            return "", default
        tenant = config.tenants.get(client_id)
        if tenant is None or tenant.tier is None:
            return client_id, default
        return client_id, ranks[tenant.tier]

    return tenant_of
