"""The data plane of a gateway, embedded or not: its routes, its limits, and who its clients are."""

import asyncio
from collections.abc import Callable

from penstock.config import Config
from penstock.core.capacity import CapacityRules
from penstock.doors.cors import CrossOrigin
from penstock.doors.data_plane import DataPlane
from penstock.doors.door import HttpLimits, Inside
from penstock.doors.open_doors import open_doors
from penstock.edge.app import App
from penstock.edge.edge import Edge, EdgeLimits
from penstock.errors import Draining
from penstock.ports import Clock, Doorman, Gateway
from penstock.quota import Limits
from penstock.runtime.ids import random_ids
from penstock.server.certificates import server_tls
from penstock.server.descriptors import connections_allowed
from penstock.types import Failure, Identity

# For those whom a server that stops leaves without an answer.
OUT_OF_TIME = Failure(
    Draining.code, "this server has stopped: the time that server.drain allows was over", retry_after=1.0
)
HAIR = 1e-6  # seconds


def data_plane(
    gateway: Gateway,
    config: Config,
    loop: asyncio.AbstractEventLoop,
    clock: Clock,
    doorman: Doorman | None,
    not_ready: Callable[[], str] = lambda: "",
) -> Edge:
    limits = config.limits
    http_limits = HttpLimits(
        limits.max_body,
        limits.max_depth,
        limits.control_characters,
        limits.max_long_poll,
        limits.count_refused,
        limits.max_asks,
    )
    inside = Inside(gateway, http_limits, doorman is not None, not_ready)
    app: App = DataPlane(inside, open_doors(inside), random_ids().__next__, doorman)
    if config.server.cors_origins:
        app = CrossOrigin(app, config.server.cors_origins)
    edge_limits = EdgeLimits(
        limits.max_body,
        connections_allowed(config),
        limits.header_timeout,
        limits.body_timeout,
        limits.idle_timeout,
        max_unfinished=limits.max_unfinished_bytes,
        max_unsent=limits.max_unsent_bytes,
    )
    return Edge(app, edge_limits, loop, clock, server_tls(config), keys=doorman is not None)


def tls_health(edge: Edge) -> dict[str, int]:
    """For the admin plane; nothing where there is no TLS."""
    return {} if edge.tls is None else edge.tls.health()


def unsent_gauges(edge: Edge) -> tuple[int, int]:
    return edge.unsent.total, edge.unsent.crowded_out


def tier_names(config: Config) -> list[str]:
    """The best first."""
    return [name for name, _ in sorted(config.tiers.levels.items(), key=lambda item: item[1].rank)]


def limits_by_rank(config: Config) -> list[Limits | None]:
    """One object for each tier, or None for one without limits."""
    found: list[Limits | None] = []
    for name in tier_names(config):
        level = config.tiers.levels[name]
        limits = Limits(level.requests_per_minute, level.burst, level.in_flight)
        found.append(limits if limits != Limits() else None)
    return found


def capacity_rules(config: Config) -> CapacityRules:
    tiers = config.tiers
    shares = tuple(tiers.levels[name].queue_share for name in tier_names(config))
    return CapacityRules(
        tiers.lowest_share,
        tiers.warning,
        tiers.critical,
        tiers.reference_rps,
        config.limits.max_queue,
        shares if any(share < 1.0 for share in shares) else (),
    )


def time_limits(config: Config, model: str) -> list[tuple[float, float]]:
    """For a request that brings none, by rank: to be sent, and to be answered. A tier's own beat the model's."""
    limits, levels = config.timeouts_of(model), config.tiers.levels
    found = []
    for tier in tier_names(config):
        queue = levels[tier].queue_timeout or limits.queue
        request = levels[tier].request_timeout or limits.request
        # Limits that are alike tell of a client's own time-out (`has_own_limit`).
        found.append((min(queue, request - HAIR), request))
    return found


def tenants(config: Config) -> Callable[[str | None, Identity | None], tuple[str, int]]:
    """The tenant and the rank of its tier: by what was proved, where proof is asked for, and never
    by what a client says of itself. Elsewhere the config says who a client is."""
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
