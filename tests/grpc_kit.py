"""Real gRPC endpoints for tests, well-behaved and otherwise, and a backend that talks to them."""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio

from penstock.adapters.backends.grpc import GrpcBackend
from penstock.adapters.backends.oip import messages
from penstock.adapters.backends.oip.settings import GrpcSettings
from penstock.errors import BackendError
from penstock.types import Batch, Reason, Request, Result

Context = Any  # grpc.aio.ServicerContext, whose types want parameters that mean nothing here
Infer = Callable[[Any, Context], Awaitable[Any]]
# An endpoint that is well may answer late: who tests the limit sets it.
PATIENT: dict[str, Any] = {"probe_timeout": 60.0}


def batch_of(*inputs: bytes, parameters: bytes = b"", traceparents: tuple[str | None, ...] = ()) -> Batch:
    requests = [Request(f"k{i}", "m", text, 0.0, 9.0, 9.0) for i, text in enumerate(inputs)]
    for request, traceparent in zip(requests, traceparents, strict=False):
        request.traceparent = traceparent
        request.tracestate = traceparent and f"vendor={request.key}"
    return Batch(17, "m", parameters, requests, Reason.FULL, 0.0)


def response_to(
    request: Any,
    values: list[Any],
    *,
    name: str = "out",
    datatype: str = "BYTES",
    shape: list[int] | None = None,
    contents: str = "bytes_contents",
    raw: bytes | None = None,
) -> Any:
    response = messages.ModelInferResponse(model_name=request.model_name, model_version="7", id=request.id)
    sizes = [len(values)] if shape is None else shape
    tensor = response.outputs.add(name=name, datatype=datatype, shape=sizes)
    if raw is None:
        getattr(tensor.contents, contents).extend(values)
    else:
        response.raw_output_contents.append(raw)
    return response


def raw_texts(*texts: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


async def echo(request: Any, _: Context) -> Any:
    return response_to(request, list(request.inputs[0].contents.bytes_contents))


async def hang(_: Any, __: Context) -> Any:
    await asyncio.get_running_loop().create_future()


def refusing(code: grpc.StatusCode, words: str = "no") -> Infer:
    async def refuse(_: Any, context: Context) -> Any:
        await context.abort(code, words)

    return refuse


@dataclass
class Service:
    """What the endpoint does; everything may be changed while it runs."""

    infer: Infer = echo
    ready: bool = True
    readiness: Callable[[Context], Awaitable[None]] | None = None  # done before it is told
    inputs: list[tuple[str, str, list[int]]] = field(default_factory=lambda: [("text", "BYTES", [-1])])
    asked: list[str] = field(default_factory=list)  # which methods, in order

    def handlers(self) -> "grpc.GenericRpcHandler[Any, Any]":
        methods = {
            "ModelReady": (self._ready, messages.ModelReadyRequest),
            "ModelMetadata": (self._describe, messages.ModelMetadataRequest),
            "ModelInfer": (self._infer, messages.ModelInferRequest),
        }
        return grpc.method_handlers_generic_handler(
            messages.SERVICE,
            {
                name: grpc.unary_unary_rpc_method_handler(
                    method, kind.FromString, lambda message: bytes(message.SerializeToString())
                )
                for name, (method, kind) in methods.items()
            },
        )

    async def _ready(self, _: Any, context: Context) -> Any:
        self.asked.append("ModelReady")
        if self.readiness:
            await self.readiness(context)
        return messages.ModelReadyResponse(ready=self.ready)

    async def _describe(self, _: Any, __: Context) -> Any:
        self.asked.append("ModelMetadata")
        described = messages.ModelMetadataResponse()
        for name, datatype, shape in self.inputs:
            described.inputs.add(name=name, datatype=datatype, shape=shape)
        return described

    async def _infer(self, request: Any, context: Context) -> Any:
        self.asked.append("ModelInfer")
        return await self.infer(request, context)


@asynccontextmanager
async def serving(
    service: Service, *, port: int = 0, credentials: grpc.ServerCredentials | None = None
) -> AsyncIterator[str]:
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers((service.handlers(),))
    place = f"127.0.0.1:{port}"
    bound = server.add_secure_port(place, credentials) if credentials else server.add_insecure_port(place)
    await server.start()
    try:
        yield f"grpc{'s' if credentials else ''}://127.0.0.1:{bound}/m"
    finally:
        await server.stop(None)


@asynccontextmanager
async def backend_for(
    url: str, shape: GrpcSettings | None = None, **settings: Any
) -> AsyncIterator[GrpcBackend]:
    backend = GrpcBackend(url, shape, **{**PATIENT, **settings})
    await backend.start()
    try:
        yield backend
    finally:
        await backend.close()


def answer(
    infer: Infer, batch: Batch, shape: GrpcSettings | None = None, **settings: Any
) -> Result | BackendError:
    """What one run against such a model gives: a result, or the backend's error."""

    async def body() -> Result | BackendError:
        async with serving(Service(infer)) as url, backend_for(url, shape, **settings) as backend:
            try:
                return await backend.run(batch)
            except BackendError as error:
                return error

    return asyncio.run(body())


async def loss_noticed(backend: GrpcBackend) -> None:
    """Until its channel knows that the connection is gone."""
    channel = backend._open()
    if channel.get_state() is grpc.ChannelConnectivity.READY:
        await channel.wait_for_state_change(grpc.ChannelConnectivity.READY)


@dataclass
class Line:
    """Between a backend and its endpoint; can be cut."""

    url: str
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    def cut(self) -> None:
        for writer in self.writers:
            writer.transport.abort()


@asynccontextmanager
async def line_to(url: str, *, answers: int | None = None) -> AsyncIterator[Line]:
    """`answers`: cut by itself after so many bytes from the endpoint."""
    host, _, port = url.removeprefix("grpc://").partition("/")[0].partition(":")
    tasks: set[asyncio.Task[Any]] = set()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: int | None) -> None:
        try:
            while most is None or most > 0:
                content = await reader.read(65536 if most is None else most)
                if not content:
                    break
                most = None if most is None else most - len(content)
                writer.write(content)
                await writer.drain()
        except ConnectionError:
            pass  # cut, which is what it is for
        if most == 0:
            line.cut()
        writer.close()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        line.writers.append(writer)
        there, back = await asyncio.open_connection(host, int(port))
        line.writers.append(back)
        await asyncio.gather(carry(reader, back, None), carry(there, writer, answers))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    line = Line(f"grpc://127.0.0.1:{server.sockets[0].getsockname()[1]}/m")
    try:
        yield line
    finally:
        line.cut()
        server.close()
        await server.wait_closed()
        await asyncio.gather(*tasks)
