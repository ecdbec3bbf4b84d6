"""The life of an embedded server: start, serve, drain, stop (SPEC E7)."""

import asyncio
import logging
import signal
from collections.abc import Callable
from typing import Any

from penstock.config import Config
from penstock.errors import UserMistake
from penstock.roles.embedded import Embedded
from penstock.roles.listen import AdminListener, DataListener, bind, tune_process

log = logging.getLogger("penstock")

Announce = Callable[[DataListener, AdminListener, Embedded], None]


async def serve(config: Config, announce: Announce) -> int:
    """Serve until a signal says otherwise; the exit code."""
    if not config.models:
        raise UserMistake("nothing to serve: give a TARGET, or describe a model in penstock.toml")
    tune_process()
    server = config.server
    bound = bind(server.host, server.port, "--port or --host")
    admin_bound = bind(server.admin_host, server.admin_port, "--admin-port")
    loop = asyncio.get_running_loop()
    embedded = Embedded(config, loop)
    data = DataListener(embedded.edge, bound)
    admin = AdminListener(embedded.admin, admin_bound)
    stopping = _Signals(loop)
    embedded.watch(data, admin)
    try:
        embedded.start()
        admin.start()  # the probes answer while models load
        if await stopping.first_of(embedded.started):
            await data.start()
            announce(data, admin, embedded)
            await stopping.requested.wait()
            await _drain(embedded, data, server.drain, stopping)
        return 0
    finally:
        data.close()
        await admin.stop(1.0)
        await embedded.stop()
        stopping.close()


async def _drain(embedded: Embedded, data: DataListener, seconds: float, stopping: "_Signals") -> None:
    waiting = len(embedded.gateway.waiters)
    log.info("draining", extra={"waiting": waiting, "at_most_seconds": seconds})
    draining = asyncio.ensure_future(embedded.drain(seconds))
    hurry = asyncio.ensure_future(stopping.hurry.wait())
    await asyncio.wait([draining, hurry], return_when=asyncio.FIRST_COMPLETED)
    hurry.cancel()
    if draining.done() and draining.result():
        log.info("drained")
    else:
        draining.cancel()
        log.warning("stopped before all was done", extra={"given_up": len(embedded.gateway.waiters)})
        embedded.abandon()
    data.stop()


class _Signals:
    """SIGTERM or Ctrl-C drains; a second Ctrl-C ends at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.requested = asyncio.Event()
        self.hurry = asyncio.Event()
        loop.add_signal_handler(signal.SIGTERM, self.requested.set)
        loop.add_signal_handler(signal.SIGINT, self._interrupt)

    def _interrupt(self) -> None:
        if self.requested.is_set():
            self.hurry.set()
        self.requested.set()

    async def first_of(self, started: "asyncio.Future[None]") -> bool:
        """True when it started; False when it was told to stop before. Raises what kept it from starting."""
        asked = asyncio.ensure_future(self.requested.wait())
        waited: list[asyncio.Future[Any]] = [started, asked]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if started.done():
            started.result()
            return True
        return False

    def close(self) -> None:
        """All is done and the exit code is known: a signal that comes now must not change it."""
        for kind in (signal.SIGTERM, signal.SIGINT):
            self._loop.remove_signal_handler(kind)
            signal.signal(kind, signal.SIG_IGN)
