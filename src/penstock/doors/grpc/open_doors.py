"""The list of all doors for gRPC. A method more is a class in this folder and a name in this list.
`roles/grpc.py` opens them once for each gateway."""

from collections.abc import Callable, Collection, Mapping, Sequence

from penstock.doors.door import Inside
from penstock.doors.grpc.calls import GrpcAbout, GrpcDoor, service_of
from penstock.doors.grpc.health import Check, Watch
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

Make = Callable[[Inside], GrpcDoor]

DOORS: Sequence[Make] = (Infer, InferStream)  # always open
# Open unless the setting in `[doors]` with this name is false, which holds for the doors over HTTP too.
FOR_OTHERS: Mapping[str, Sequence[Make]] = {
    "open_inference": (
        ModelInfer, ModelStreamInfer, ServerLive, ServerReady, ServerMetadata, ModelReady, ModelMetadata,
    ),
}  # fmt: skip
ABOUT: Sequence[type[GrpcAbout]] = (
    Check,
    Watch,
    Reflection,
    ReflectionAlpha,
)  # these tell which services there are


def open_doors(inside: Inside, closed: Collection[str] = ()) -> list[GrpcDoor]:
    """Returns all doors but those that are `closed`."""
    others = [make for name, several in FOR_OTHERS.items() if name not in closed for make in several]
    doors = [make(inside) for make in (*DOORS, *others)]
    paths = [*(door.path for door in doors), *(make.path for make in ABOUT)]
    services = sorted(set(map(service_of, paths)))
    return [*doors, *(make(inside, services) for make in ABOUT)]


def methods(doors: Sequence[GrpcDoor]) -> list[bytes]:
    """Returns the paths of all methods."""
    return [door.path.encode() for door in doors]


def streams(doors: Sequence[GrpcDoor]) -> list[bytes]:
    """Returns the paths of the methods that take several messages."""
    return [door.path.encode() for door in doors if door.several]
