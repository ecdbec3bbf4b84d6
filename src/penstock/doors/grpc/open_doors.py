"""The list of all doors for gRPC. A method more is a class in this folder and a name in this list.
`roles/grpc.py` opens them once for each gateway."""

from collections.abc import Callable, Sequence

from penstock.doors.door import Inside
from penstock.doors.grpc.calls import GrpcDoor
from penstock.doors.grpc.health import Check
from penstock.doors.grpc.inference import (
    ModelInfer,
    ModelMetadata,
    ModelReady,
    ModelStreamInfer,
    ServerLive,
    ServerMetadata,
    ServerReady,
)
from penstock.doors.grpc.native import Infer, InferStream
from penstock.doors.grpc.reflection import Reflection, ReflectionAlpha

DOORS: Sequence[Callable[[Inside], GrpcDoor]] = (
    Infer, InferStream, Check, Reflection, ReflectionAlpha,
    ModelInfer, ModelStreamInfer, ServerLive, ServerReady, ServerMetadata, ModelReady, ModelMetadata,
)  # fmt: skip


def open_doors(inside: Inside) -> list[GrpcDoor]:
    return [make(inside) for make in DOORS]


def streams(doors: Sequence[GrpcDoor]) -> list[bytes]:
    """Returns the paths of the methods that take several messages."""
    return [door.path.encode() for door in doors if door.several]
