"""The life of an embedded server: start, serve, drain, stop (SPEC E7)."""

import asyncio
import logging
import signal
from collections.abc import Callable
from typing import Any

from granian.constants import Interfaces

from penstock.config import Config
from penstock.errors import UserMistake
from penstock.roles.embedded import Embedded
from penstock.roles.listen import Listener, claim_port, tune_process

log = logging.getLogger("penstock")

Announce = Callable[[Listener, Listener, Embedded], None]


async def serve(config: Config, announce: Announce) -> int:
    """Serve until a signal says otherwise; the exit code."""
    if not config.models:
        raise UserMistake("nothing to serve: give a TARGET, or describe a model in penstock.toml")
    tune_process()
    server = config.server
    port = claim_port(server.host, server.port, "--port or --host")
    admin_port = claim_port(server.admin_host, server.admin_port, "--admin-port")
    loop = asyncio.get_running_loop()
    embedded = Embedded(config, loop)
    limits = config.limits
    data = Listener(
        embedded.data_plane, Interfaces.RSGI, server.host, port,
        connections=server.max_connections, header_timeout=limits.header_timeout,
    )  # fmt: skip
    admin = Listener(
        embedded.admin, Interfaces.ASGINL, server.admin_host, admin_port,
        connections=1024, header_timeout=limits.header_timeout,
    )  # fmt: skip
    stopping = _Signals(loop)
    embedded.watch(data, admin)
    try:
        embedded.start()
        admin.start()  # the probes answer while models load
        if await stopping.first_of(embedded.started):
            data.start()
            await _bound(data)
            announce(data, admin, embedded)
            await stopping.requested.wait()
            await _drain(embedded, data, server.drain, stopping)
        return 0
    finally:
        await admin.stop(1.0)
        await embedded.stop()
        stopping.close()


async def _bound(listener: Listener) -> None:
    """Until it accepts connections: what is announced must be true."""
    for _ in range(500):
        if listener.dead:
            raise UserMistake(f"cannot listen on {listener.url}")
        try:
            _, writer = await asyncio.open_connection(listener.host, listener.port)
        except OSError:
            await asyncio.sleep(0.01)
        else:
            writer.close()
            return
    raise UserMistake(f"cannot listen on {listener.url}: it does not answer")


async def _drain(embedded: Embedded, data: Listener, seconds: float, stopping: "_Signals") -> None:
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
    await data.stop()


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
