"""The door of `grpc.health.v1.Health`: whether the server is ready, for load balancers and probes. The data
plane for gRPC calls it. There is no `Watch`: a client that finds none asks with `Check`."""

from typing import Any

from penstock.doors.grpc.calls import GrpcAbout
from penstock.errors import NotFound
from penstock.protos.messages import message

SERVICE = "grpc.health.v1.Health"
SERVING, NOT_SERVING = 1, 2

_Response = message("grpc.health.v1.HealthCheckResponse")


class Check(GrpcAbout):
    """Tells whether traffic should come. All services are ready, or none is."""

    path = f"/{SERVICE}/Check"
    request = message("grpc.health.v1.HealthCheckRequest")

    def told(self, message: Any) -> Any:
        if message.service and message.service not in self.services:
            raise NotFound(f"there is no service {message.service[:100]!r}")
        return _Response(status=NOT_SERVING if self.inside.not_ready() else SERVING)
