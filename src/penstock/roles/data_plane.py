"""Puts the data plane of a gateway together: its doors, their limits, and the edge in front. The two roles with
clients call `data_plane` (`embedded.py`, `gateway.py`). `grpc.py` takes the inside and the limits from here.
`process.py` asks here what its metrics and its health say of TLS and of unsent answers."""

import asyncio
from collections.abc import Callable
from dataclasses import asdict, replace

from penstock.config import Config
from penstock.doors.cors import CrossOrigin
from penstock.doors.data_plane import DataPlane
from penstock.doors.door import HttpLimits, Inside
from penstock.doors.large import LargeBodies
from penstock.doors.open_doors import lines_of, open_doors
from penstock.doors.overload_status import OverloadStatus
from penstock.doors.traced import TracedPlane
from penstock.edge.app import App
from penstock.edge.edge import Edge, EdgeLimits
from penstock.edge.tls import ServerTls
from penstock.errors import Overloaded
from penstock.gauges import TlsGauges
from penstock.ports import Clock, Doorman, Gateway
from penstock.ports.tracing import RequestTracer
from penstock.ports.webhooks import Webhooks
from penstock.runtime.ids import random_ids
from penstock.runtime.jobs.service import JobService
from penstock.server.descriptors import connections_allowed


def data_plane(
    gateway: Gateway,
    config: Config,
    loop: asyncio.AbstractEventLoop,
    clock: Clock,
    doorman: Doorman | None,
    not_ready: Callable[[], str] = lambda: "",
    tls: ServerTls | None = None,
    tracer: RequestTracer | None = None,
    webhooks: Webhooks | None = None,
    large: LargeBodies | None = None,
    jobs: JobService | None = None,
) -> Edge:
    """Returns the edge for HTTP, with the doors behind it. `doorman`: finds out who asks; None if nobody is asked.
    `not_ready`: says why no traffic should come; empty if it should. `large`: the line of large bodies, if another
    plane shares it. `jobs`: runs the lines of files; None if no files are taken."""
    inside = replace(
        inside_of(gateway, config, doorman, not_ready), webhooks=webhooks, jobs=jobs, tracer=tracer
    )
    if jobs is not None:
        jobs.lines = lines_of(inside)
    plane = DataPlane(
        inside, open_doors(inside, closed_doors(config)), random_ids().__next__, doorman, large=large
    )
    app: App = plane
    if config.api.overload_status != Overloaded.status:
        app = OverloadStatus(app, config.api.overload_status)
    if config.server.cors_origins:
        app = CrossOrigin(app, config.server.cors_origins)
    if tracer is not None:
        app = TracedPlane(app, tracer, plane.path_of)
    return Edge(app, limits_of(config), loop, clock, tls, keys=doorman is not None)


def closed_doors(config: Config) -> list[str]:
    """Returns the names of the doors that `[doors]` switches off."""
    return [name for name, is_open in asdict(config.doors).items() if not is_open]


def inside_of(
    gateway: Gateway, config: Config, doorman: Doorman | None, not_ready: Callable[[], str]
) -> Inside:
    """Returns what is behind every door."""
    limits = config.limits
    http_limits = HttpLimits(
        limits.max_body,
        limits.max_depth,
        limits.control_characters,
        limits.max_long_poll,
        limits.count_refused,
        limits.max_asks,
        limits.max_stream_asks,
    )
    return Inside(gateway, http_limits, doorman is not None, not_ready, config.server.cors_origins)


def limits_of(config: Config) -> EdgeLimits:
    """Returns what the edge allows clients to send, and how long they may take."""
    limits = config.limits
    return EdgeLimits(
        limits.max_body,
        connections_allowed(config),
        limits.header_timeout,
        limits.body_timeout,
        limits.idle_timeout,
        max_unfinished=limits.max_unfinished_bytes,
        max_unsent=limits.max_unsent_bytes,
        quiet_seconds=limits.stream_idle_timeout,
    )


def tls_health(tls: ServerTls | None) -> dict[str, int]:
    """Returns what the admin plane shows of TLS; empty without TLS."""
    return {} if tls is None else tls.health()


def tls_gauges(tls: ServerTls | None) -> TlsGauges | None:
    """Returns what the metrics show of TLS; None without TLS."""
    if tls is None:
        return None
    return TlsGauges(tls.loads, tls.failures, tls.failed_handshakes, tls.ends)


def unsent_gauges(edge: Edge) -> tuple[int, int]:
    """Returns how many bytes of answers the clients have not taken, and how many answers had to give way: of all
    edges that share this one's lobby."""
    return edge.unsent.total, edge.unsent.crowded_out
