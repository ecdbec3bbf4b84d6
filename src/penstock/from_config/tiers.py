"""Tiers and tenants, made from the configuration: who is served first, with which limits, and how long requests may
wait. Every gateway and batcher is made with these, in one process or over a bus; observers and the simulator need
the names of the tiers."""

from collections.abc import Callable

from penstock.config import Config
from penstock.quota import Limits
from penstock.types import Identity

# Seconds. The server's own limits for queue and request differ by this at least, because equal limits mean that the
# client set a time-out of its own (`types.has_own_limit`).
HAIR = 1e-6


def tier_names(config: Config) -> list[str]:
    """Returns the names of the tiers, the best first."""
    return [name for name, _ in sorted(config.tiers.levels.items(), key=lambda item: item[1].rank)]


def limits_by_rank(config: Config) -> list[Limits | None]:
    """Returns what each tenant of a tier may ask, by the tier's rank; None for a tier without limits."""
    found: list[Limits | None] = []
    for name in tier_names(config):
        level = config.tiers.levels[name]
        limits = Limits(level.requests_per_minute, level.burst, level.in_flight)
        found.append(limits if limits != Limits() else None)
    return found


def changed_limits(before: Config, now: Config) -> dict[Limits, Limits]:
    """Returns the limits that have changed: by the former ones of a tier, those that it has now. Both
    configurations have the same tiers."""
    pairs = zip(limits_by_rank(before), limits_by_rank(now), strict=True)
    return {old: new for old, new in pairs if old is not None and new is not None and old != new}


def time_limits(config: Config, model: str) -> list[tuple[float, float]]:
    """Returns for each tier the seconds in which a request must be sent, and answered, if its client sets no limit.
    A tier's own limits win over the model's."""
    limits, levels = config.timeouts_of(model), config.tiers.levels
    found = []
    for tier in tier_names(config):
        queue = levels[tier].queue_timeout or limits.queue
        request = levels[tier].request_timeout or limits.request
        found.append((min(queue, request - HAIR), request))
    return found


def tenants(config: Config) -> Callable[[str | None, Identity | None], tuple[str, int]]:
    """Returns a function that finds a tenant and the rank of its tier. If clients prove who they are, only the
    identity counts. Otherwise the tenant is the `client_id`, and [tenants] may say its tier."""
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
