"""The life of a server process, whatever its role: start, serve, drain, stop. Every command that starts a server
calls `live`, which returns when the server has stopped (`roles/serve.py`, `cli/roles.py`)."""

import asyncio
import logging
import signal
from collections.abc import Callable
from typing import Any, Protocol

from starlette.applications import Starlette

from penstock.adapters.observe.pauses import LoopPauses
from penstock.config import Config
from penstock.edge.tls import ServerTls
from penstock.server.certificates import server_tls
from penstock.server.drain import Drain, Drained
from penstock.server.listen import AdminListener, DataListener, bind, tune_process
from penstock.server.live_settings import LiveSettings

log = logging.getLogger("penstock")

# For so many seconds after the signal, a client on an idle connection may still send a request. The answer then
# says that the connection ends. If it were closed at once, a request that is on its way would be lost.
FAREWELL = 1.0


class Role(Drained, Protocol):
    """What a role must be able to do: `penstock serve`, a gateway, a batcher, a worker or an autoscaler. The class
    `roles.process.Process` is that for each of them."""

    @property
    def admin(self) -> Starlette:
        """The application of the admin plane."""
        ...

    @property
    def tls(self) -> ServerTls | None:
        """The TLS of its edges; None without TLS."""
        ...

    @property
    def pauses(self) -> LoopPauses: ...

    def start(self) -> None: ...

    def drained_by(self, drain: Drain) -> None:
        """Takes the drain, for the admin plane, which may begin it."""
        ...

    def abandon(self) -> None:
        """Answers everyone who still waits, because the time is up."""
        ...

    async def stop(self) -> None: ...

    def watch(self, *listeners: DataListener | AdminListener) -> None:
        """Notes the listeners: if one of them ends, the role is not alive any more."""
        ...


# Tells the person at the terminal where the server listens. The first is None in a role without clients.
Announce = Callable[[DataListener | None, AdminListener], None]


async def live(make: Callable[[asyncio.AbstractEventLoop], Role], config: Config, announce: Announce) -> int:
    """Runs a role until a signal ends it; returns the exit code."""
    tune_process()
    server = config.server
    loop = asyncio.get_running_loop()
    admin_bound = bind(server.admin_host, server.admin_port, "--admin-port")
    role = make(loop)
    data = tls = None
    if role.edge is not None:
        data = DataListener(role.edge, bind(server.host, server.port, "--port or --host"))
        if role.grpc is not None:
            bound = bind(server.host, server.grpc_port or 0, "--grpc-port")
            data.beside = DataListener(role.grpc, bound, scheme="grpc")
        tls = role.tls
    elif config.tls.admin:
        tls = server_tls(config)
    admin = AdminListener(role.admin, admin_bound, config, loop, tls if config.tls.admin else None)
    stopping = _Signals(loop, tls, role.settings)
    drain = Drain(role, loop)
    role.drained_by(drain)
    role.watch(*([data] if data else []), admin)
    try:
        role.pauses.start(loop)
        role.start()
        await admin.start()  # first, so that the probes answer while models load
        if await stopping.first_of(role.started):
            if data is not None:
                await data.start()
            announce(data, admin)
            await stopping.requested.wait()
            await _drain(role, data, drain, stopping)
        return 0
    finally:
        if data is not None:
            data.close()
        admin.close()
        await role.stop()
        role.pauses.stop()
        stopping.close()


async def _drain(role: Role, data: DataListener | None, drain: Drain, stopping: "_Signals") -> None:
    draining = drain.begin()
    hurry = asyncio.ensure_future(stopping.hurry.wait())
    await asyncio.wait([draining, hurry], return_when=asyncio.FIRST_COMPLETED)
    if draining.done() and draining.result():
        log.info("drained")
    else:
        draining.cancel()
        log.warning("stopped before all was done", extra={"given_up": role.unfinished})
        role.abandon()
    if data is not None:
        farewell = min(FAREWELL, role.settings.config.server.drain) - drain.seconds
        finishing = asyncio.ensure_future(data.finish(farewell))
        await asyncio.wait([finishing, hurry], return_when=asyncio.FIRST_COMPLETED)
        finishing.cancel()
    hurry.cancel()


class _Signals:
    """SIGTERM or Ctrl-C drains; a second Ctrl-C ends at once. SIGHUP reads settings and certificates anew."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, tls: ServerTls | None, settings: LiveSettings
    ) -> None:
        self._loop = loop
        self._kinds = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]
        self._tls, self._settings = tls, settings
        loop.add_signal_handler(signal.SIGHUP, self._hang_up)
        self.requested = asyncio.Event()  # set once the role shall drain and end
        self.hurry = asyncio.Event()  # set once it shall end without waiting for the drain
        loop.add_signal_handler(signal.SIGTERM, self.requested.set)
        loop.add_signal_handler(signal.SIGINT, self._interrupt)

    def _hang_up(self) -> None:
        if self._tls is not None:
            self._tls.reload()
        self._settings.reload()

    def _interrupt(self) -> None:
        if self.requested.is_set():
            self.hurry.set()
        self.requested.set()

    async def first_of(self, started: "asyncio.Future[None]") -> bool:
        """Returns True if the role started, False if a signal came first. Raises what kept the role from
        starting."""
        asked = asyncio.ensure_future(self.requested.wait())
        waited: list[asyncio.Future[Any]] = [started, asked]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if started.done():
            started.result()
            return True
        return False

    def close(self) -> None:
        """Ignores signals from now on: the exit code is known, and must not change any more."""
        for kind in self._kinds:
            self._loop.remove_signal_handler(kind)
            signal.signal(kind, signal.SIG_IGN)
