"""Says whether a process is traced, and shows how its traces stand. `observers.py` puts what is made here among the
observers, the roles with clients give its tracer to the data plane, and the metrics ask it (`process.py`). If
traces are on, `traces.py` makes them."""

import asyncio
from typing import TYPE_CHECKING

from penstock.config import Config
from penstock.gauges import TracingGauges
from penstock.ports import Clock
from penstock.ports.tracing import RequestTracer
from penstock.roles.role import Role

if TYPE_CHECKING:
    from penstock.roles.traces import Traces


def tracing_of(config: Config, role: Role, loop: asyncio.AbstractEventLoop, clock: Clock) -> "Traces | None":
    """Returns what traces this process; None if the configuration asks for no traces."""
    if not config.tracing.endpoint:
        return None
    from penstock.roles.traces import traces_of  # it takes a while to import

    return traces_of(config, role, loop, clock)


def tracer_of(traces: "Traces | None") -> RequestTracer | None:
    """Returns what traces the requests of clients; None if there are no traces."""
    return None if traces is None else traces.tracer


def tracing_gauges(traces: "Traces | None") -> TracingGauges | None:
    """Returns what the metrics show of traces; None if there are none."""
    if traces is None:
        return None
    exporter = traces.exporter
    return TracingGauges(exporter.sent, exporter.dropped, exporter.waiting)
