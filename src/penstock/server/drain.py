"""The drain of a role: it says that it is not ready, takes nothing new, and finishes what it has accepted.

`life.py` makes one for each process. A signal begins it, or `/drain` on the admin plane, which a supervisor asks
before it sends the signal. Whoever is second joins the drain that is under way.
"""

import asyncio
import logging
from typing import Protocol

from penstock.edge.edge import Edge
from penstock.server.live_settings import LiveSettings

log = logging.getLogger("penstock")


class Drained(Protocol):
    """What of a role is needed to drain it."""

    @property
    def edge(self) -> Edge | None:
        """The edge that clients connect to; None in a role without clients."""
        ...

    @property
    def grpc(self) -> Edge | None:
        """The edge for gRPC; None if there is no port for it."""
        ...

    @property
    def settings(self) -> LiveSettings:
        """The configuration that the role goes by. SIGHUP has it read again."""
        ...

    @property
    def started(self) -> "asyncio.Future[None]":
        """A future that is done when the role can serve. It raises the mistake that keeps the role from
        starting."""
        ...

    @property
    def unfinished(self) -> int:
        """How many requests the role still owes an answer."""
        ...

    def retire(self) -> None:
        """Tells others that the role is not ready any more, and serves on."""
        ...

    async def drain(self, seconds: float) -> bool:
        """Takes nothing new and finishes what was taken. Returns True if all of it was finished in time."""
        ...


class Drain:
    """One role's drain, which happens once."""

    def __init__(self, role: Drained, loop: asyncio.AbstractEventLoop) -> None:
        self._role = role
        self._loop = loop
        self._going: asyncio.Task[bool] | None = None  # the drain, once it has begun
        self._began = 0.0  # when it began

    @property
    def seconds(self) -> float:
        """How long ago the drain began; 0 if it has not."""
        return 0.0 if self._going is None else self._loop.time() - self._began

    def begin(self) -> "asyncio.Task[bool]":
        """Begins the drain, unless it is under way or over. The task tells whether all was finished in time."""
        if self._going is None:
            self._began = self._loop.time()
            self._going = self._loop.create_task(self._drain())
        return self._going

    async def ask(self) -> bool:
        """Begins the drain for somebody who may stop waiting for it. Returns whether all was finished in time. A
        role that has not started yet has accepted nothing: it is not ready from now on, and that is all."""
        if not self._role.started.done():
            self._role.retire()
            return True
        return await asyncio.shield(self.begin())

    async def _drain(self) -> bool:
        role, server = self._role, self._role.settings.config.server
        role.retire()
        if role.edge is not None:
            role.edge.retire()  # from now on each answer ends its connection, so that clients go elsewhere
        if role.grpc is not None:
            role.grpc.retire()
        log.info("draining", extra={"waiting": role.unfinished, "at_most_seconds": server.drain})
        if role.edge is not None and server.drain_grace:
            await asyncio.sleep(server.drain_grace)
        return await role.drain(server.drain)
