"""Puts the data plane for gRPC together, on a port of its own: its doors, and the edge in front. The two roles
with clients call it (`embedded.py`, `gateway.py`). The gateway behind it is the one that answers over HTTP."""

import asyncio
from collections.abc import Callable

from penstock.config import Config
from penstock.doors.data_plane import DataPlane
from penstock.doors.large import LargeBodies
from penstock.doors.traced import TracedPlane
from penstock.edge.app import App
from penstock.edge.edge import Edge
from penstock.edge.tls import ServerTls
from penstock.errors import UserMistake
from penstock.ports import Clock, Doorman, Gateway
from penstock.ports.tracing import RequestTracer
from penstock.roles.data_plane import closed_doors, inside_of
from penstock.runtime.ids import random_ids


def grpc_plane(
    gateway: Gateway,
    config: Config,
    beside: Edge,
    loop: asyncio.AbstractEventLoop,
    clock: Clock,
    doorman: Doorman | None,
    not_ready: Callable[[], str] = lambda: "",
    tls: ServerTls | None = None,
    tracer: RequestTracer | None = None,
    large: LargeBodies | None = None,
) -> Edge | None:
    """Returns the edge for gRPC; None if there is no port for it. `beside`: the edge for HTTP, with which it shares
    limits. `large`: the line of large bodies that they share."""
    if config.server.grpc_port is None:
        return None
    try:
        # They need protobuf, which is an extra and slow to import.
        from penstock.doors.grpc.open_doors import methods, open_doors, streams
        from penstock.doors.grpc.status import by_grpc, no_such_method
    except ImportError:
        raise UserMistake("server.grpc_port needs the grpc extra: pip install 'penstock[grpc]'") from None
    from penstock.edge.grpc import GrpcEdge

    inside = inside_of(gateway, config, doorman, not_ready)
    doors = open_doors(inside, closed_doors(config))
    plane = DataPlane(inside, doors, random_ids().__next__, doorman, no_such_method, large)
    app: App = plane if tracer is None else TracedPlane(plane, tracer, plane.path_of, by_grpc)
    keys = doorman is not None
    return GrpcEdge(
        app,
        beside.limits,
        loop,
        clock,
        tls,
        keys=keys,
        lobby=beside.lobby,
        methods=methods(doors),
        streams=streams(doors),
    )
