"""Calls of gRPC for tests, by grpcio's own client, with the messages of our `.proto` files."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from penstock.protos.messages import message
from server import HUNG, Server

INFERENCE = "inference.GRPCInferenceService"
NATIVE = "penstock.v1.Inference"
# Only our own tries count, and each channel is a connection of its own.
OPTIONS = [("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1)]

# By its path, the messages of a method: what it takes and what it gives.
METHODS = {
    f"/{NATIVE}/Infer": ("penstock.v1.InferRequest", "penstock.v1.InferResponse"),
    f"/{NATIVE}/InferStream": ("penstock.v1.InferRequest", "penstock.v1.StreamResponse"),
    f"/{INFERENCE}/ModelInfer": ("inference.ModelInferRequest", "inference.ModelInferResponse"),
    f"/{INFERENCE}/ModelStreamInfer": ("inference.ModelInferRequest", "inference.ModelStreamInferResponse"),
    "/grpc.health.v1.Health/Check": (
        "grpc.health.v1.HealthCheckRequest",
        "grpc.health.v1.HealthCheckResponse",
    ),
    "/grpc.health.v1.Health/Watch": (
        "grpc.health.v1.HealthCheckRequest",
        "grpc.health.v1.HealthCheckResponse",
    ),
    **{
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo": (
            f"grpc.reflection.{version}.ServerReflectionRequest",
            f"grpc.reflection.{version}.ServerReflectionResponse",
        )
        for version in ("v1", "v1alpha")
    },
}
INFER, STREAM = f"/{NATIVE}/Infer", f"/{NATIVE}/InferStream"


def address_of(server: Server) -> str:
    """Where the server speaks gRPC: an address without the name of a model, which a target has."""
    found = re.search(r"grpcs?://(\S+:\d+)(?!\S)", "\n".join(server.banner))
    assert found is not None, server.banner
    return found[1]


@contextmanager
def channel_to(server: Server, credentials: Any = None) -> Iterator[grpc.Channel]:
    where = address_of(server)
    if credentials is None:
        channel = grpc.insecure_channel(where, OPTIONS)
    else:
        channel = grpc.secure_channel(where, credentials, OPTIONS)
    with channel:
        yield channel


def asked(**fields: Any) -> Any:
    return message("penstock.v1.InferRequest")(**fields)


def method(channel: grpc.Channel, path: str) -> Any:
    """A method with one message each way."""
    _, answer = METHODS[path]
    return channel.unary_unary(path, lambda said: bytes(said.SerializeToString()), message(answer).FromString)


def stream(channel: grpc.Channel, path: str = STREAM) -> Any:
    """A method with streams both ways."""
    _, answer = METHODS[path]
    return channel.stream_stream(
        path, lambda said: bytes(said.SerializeToString()), message(answer).FromString
    )


def infer(channel: grpc.Channel, metadata: Any = None, timeout: float = HUNG, **fields: Any) -> Any:
    return method(channel, INFER)(asked(**fields), metadata=metadata, timeout=timeout)


def trailers_of(error: Any) -> dict[str, Any]:
    return dict(error.trailing_metadata())


def details_of(error: Any) -> dict[str, Any]:
    """What a failed call says in its trailers: by the name of its type, each detail."""
    told = message("google.rpc.Status").FromString(trailers_of(error)["grpc-status-details-bin"])
    kinds = {each.type_url.rpartition(".")[2]: each.value for each in told.details}
    return {kind: message(f"google.rpc.{kind}").FromString(value) for kind, value in kinds.items()}
