"""The doors of `grpc.health.v1.Health`: whether the server is ready, for load balancers, probes and clients. The
data plane for gRPC calls them. All services are ready, or none is.

`Check` asks once. `Watch` is told of the status at once and of each change, until the client leaves or the server
stops: then the last word is that it does not serve.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from penstock.doors.door import Inside, Respond, Visit
from penstock.doors.grpc.calls import GrpcAbout
from penstock.edge.answer import Answer
from penstock.errors import NotFound, Overloaded
from penstock.protos.messages import message

SERVICE = "grpc.health.v1.Health"
SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3
MOST_WATCHERS = 1024
LOOK = 0.5  # seconds from one look at whether the server is ready to the next: nobody tells of a change

_Response = message("grpc.health.v1.HealthCheckResponse")


class Check(GrpcAbout):
    """Tells whether traffic should come."""

    path = f"/{SERVICE}/Check"
    request = message("grpc.health.v1.HealthCheckRequest")

    def told(self, message: Any) -> Any:
        if message.service and message.service not in self.services:
            raise NotFound(f"there is no service {message.service[:100]!r}")
        return _Response(status=NOT_SERVING if self.inside.not_ready() else SERVING)


class Watch(GrpcAbout):
    """Tells whether traffic should come, and again whenever that has changed. Whoever watches a service that is not
    there is told so, and stays."""

    path = f"/{SERVICE}/Watch"
    several = True
    request = message("grpc.health.v1.HealthCheckRequest")

    def __init__(self, inside: Inside, services: Sequence[str]) -> None:
        super().__init__(inside, services)
        self._looks = Looks(lambda: NOT_SERVING if inside.not_ready() else SERVING)
        self._watchers = 0

    async def tell(self, visit: Visit, respond: Respond) -> None:
        service = self.parse(visit.body).service
        if self._watchers >= MOST_WATCHERS:
            raise Overloaded(f"{MOST_WATCHERS} clients watch already", retry_after=60.0)
        parts = visit.begin(Answer(200, (), b""))
        if parts is None:
            return
        self._watchers += 1
        said = SERVICE_UNKNOWN if service and service not in self.services else self._looks.status()
        try:
            parts.send(_told(said))
            while True:
                said = await self._looks.other_than(said)
                parts.send(_told(said))
        finally:  # its client has left, or the server is about to stop
            self._watchers -= 1
            parts.end(_told(NOT_SERVING) if said == SERVING else b"")


class Looks:
    """Looks again and again whether the server is ready, for all who watch it together, while anybody does."""

    def __init__(self, status: Callable[[], int]) -> None:
        self.status = status
        # What those who wait were told last.
        self._waiting: dict[asyncio.Future[int], int] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def other_than(self, said: int) -> int:
        """Wait until the status is not `said`. Returns it. A service that is not known stays so."""
        loop = asyncio.get_running_loop()
        changed: asyncio.Future[int] = loop.create_future()
        if said == SERVICE_UNKNOWN:
            return await changed
        self._waiting[changed] = said
        if self._timer is None:
            self._timer = loop.call_later(LOOK, self._look, loop)
        try:
            return await changed
        finally:
            del self._waiting[changed]

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._waiting:
            self._timer = None
            return
        self._timer = loop.call_later(LOOK, self._look, loop)
        status = self.status()
        for changed, said in self._waiting.items():
            if said != status and not changed.done():
                changed.set_result(status)


def _told(status: int) -> bytes:
    said: bytes = _Response(status=status).SerializeToString()
    return said
