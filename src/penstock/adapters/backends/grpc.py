"""The backend for grpc:// targets: endpoints of the Open Inference Protocol v2, such as Triton or KServe. A
worker's slot owns one and hands it a batch at a time; `roles/backends.py` makes it.

A batch is one ModelInfer with one BYTES tensor of n inputs; or with several tensors, if the model takes these
and its inputs may be JSON. What can go wrong, and the error that it becomes:

    RESOURCE_EXHAUSTED, or UNAVAILABLE that says for how long     BackendBusy
    no connection, not ready, UNAVAILABLE                         BackendUnavailable
    any other status, a tensor that is not n good outputs         BatchRejected
    the connection lost with the batch in hand                    BackendCrashed
    no end to its answer                                          the owner cancels `run`
"""

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from typing import Literal, cast

# Without this, gRPC's core writes plain lines to stderr between our lines of JSON. A status tells us the same.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from penstock.adapters.backends.from_environment import from_environment
from penstock.adapters.backends.getting_ready import getting_ready, not_in_time
from penstock.adapters.backends.oip.answer import AnswerReader
from penstock.adapters.backends.oip.asking import Asking, InputTensor, described_input, described_tensors
from penstock.adapters.backends.oip.columns import Tensor
from penstock.adapters.backends.oip.messages import (
    SERVICE,
    ModelMetadataRequest,
    ModelReadyRequest,
    ModelReadyResponse,
)
from penstock.adapters.backends.oip.retry_info import delay_in
from penstock.adapters.backends.oip.settings import GrpcSettings, GrpcTarget
from penstock.adapters.backends.out_of_memory import says_out_of_memory
from penstock.adapters.backends.trace import note_status, trace_of
from penstock.adapters.backends.wanted_later import refused_for_now
from penstock.errors import (
    BackendCrashed,
    BackendError,
    BackendOutOfMemory,
    BackendUnavailable,
    BatchRejected,
    UserMistake,
)
from penstock.types import Batch, Result, Seconds

_SHOWN = 200  # characters of an endpoint's text that a message repeats
_SETTLED = 0.05  # seconds within which a channel notices that its connection is gone
# The message of a status when the connection was lost in mid-call: gRPC's own, or that of a proxy in between.
_LOST = re.compile("Stream removed|Socket closed|Connection reset|Broken pipe|GOAWAY|connection termination")
_MAY_BE_MEMORY = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN)
_OK = 0  # the number of gRPC's status
_TOO_LARGE = "larger than max"  # gRPC's words for a message over a limit, of either side


class GrpcBackend:
    """Implements `ports.Backend`, with one connection to the endpoint and one batch on it at a time.

    The slot that owns the backend limits the time of a batch; the time-outs here are for start and probe.
    """

    def __init__(
        self,
        url: str,
        settings: GrpcSettings | None = None,
        *,
        input_kind: Literal["text", "json"] = "text",
        output_kind: Literal["auto", "text", "json"] = "auto",
        start_timeout: Seconds = 120.0,
        probe_timeout: Seconds = 2.0,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._settings = settings = settings or GrpcSettings()
        self._target = target = GrpcTarget.parse(url)
        if not target.tls and (settings.certificates.any or settings.server_name):
            raise UserMistake(f"{url}: certificates are for TLS: write grpcs:// to use them")
        self._where = target.authority
        self._headers = _headers(settings, os.environ if environ is None else environ)
        self._asking = Asking(target.model, settings.version, settings.output_name, text=input_kind == "text")
        self._json = input_kind == "json"
        self._reader = AnswerReader(settings.output_name, output_kind, several=self._json)
        self._start_timeout = start_timeout
        self._probe_timeout = probe_timeout
        self._tensor: InputTensor | Sequence[Tensor] = InputTensor(
            settings.input_name, column=settings.shape == "[n,1]"
        )
        self._channel: grpc.aio.Channel | None = None
        self._busy = False  # whether a batch is on its way

    async def start(self) -> None:
        await self.close()
        self._channel = self._connect()
        seconds = self._start_timeout
        async with getting_ready(self, seconds, not_in_time(self._where, seconds)):
            await self.probe()
            if not self._settings.input_name or self._settings.shape == "auto":
                self._tensor = await self._describe()

    async def run(self, batch: Batch) -> Result:
        headers = {"x-penstock-batch-id": str(batch.id), **trace_of(batch)}
        return await self._infer([request.input for request in batch.requests], batch, headers)

    async def probe(self) -> float:
        """Asks whether our model is ready. Whether the server is ready would also depend on its other models."""
        request = ModelReadyRequest(name=self._target.model, version=self._settings.version)
        try:
            content = await self._call("ModelReady", request.SerializeToString(), timeout=self._probe_timeout)
            ready = bool(ModelReadyResponse.FromString(content).ready)
        except grpc.aio.AioRpcError as error:
            raise self._no_health(error) from error
        except DecodeError:
            raise BackendUnavailable(f"{self._where} answered its health probe with nonsense") from None
        if not ready:
            raise BackendUnavailable(f"{self._where} says that {self._target.model!r} is not ready")
        return 0.0  # the protocol has no word for how full an endpoint is

    async def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close(None)

    def _connect(self) -> grpc.aio.Channel:
        options: list[tuple[str, str | int]] = [
            ("grpc.max_receive_message_length", self._settings.max_response),
            ("grpc.max_send_message_length", -1),
            # Each worker has a connection of its own, and each start makes a new one.
            ("grpc.use_local_subchannel_pool", 1),
            # Penstock decides what is tried again and where: no retries, no proxy, no configuration from DNS.
            ("grpc.enable_retries", 0),
            ("grpc.enable_http_proxy", 0),
            ("grpc.service_config_disable_resolution", 1),
        ]
        if not self._target.tls:
            return grpc.aio.insecure_channel(self._where, options)
        if self._settings.server_name:
            options.append(("grpc.ssl_target_name_override", self._settings.server_name))
        return grpc.aio.secure_channel(self._where, self._settings.certificates.load(), options)

    async def _describe(self) -> InputTensor | Sequence[Tensor]:
        request = ModelMetadataRequest(name=self._target.model, version=self._settings.version)
        try:
            content = await self._call(
                "ModelMetadata", request.SerializeToString(), timeout=self._probe_timeout
            )
        except grpc.aio.AioRpcError as error:
            if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                raise self._no_health(error) from error
            raise BackendUnavailable(
                f"{self._where} does not describe {self._target.model!r} ({error.code().name}):"
                " set grpc.input_name and grpc.shape"
            ) from error
        if (
            self._json
            and not self._settings.input_name
            and (tensors := described_tensors(content)) is not None
        ):
            return tensors
        found = described_input(content, self._settings.input_name)
        if self._settings.shape == "auto":
            return found
        return InputTensor(found.name, column=self._settings.shape == "[n,1]")

    async def _infer(self, inputs: list[bytes], batch: Batch, headers: Mapping[str, str]) -> Result:
        if self._busy:
            raise BatchRejected(f"{self._where} takes one batch at a time")
        self._busy = True
        try:
            if self._open().get_state() is not grpc.ChannelConnectivity.READY:
                await self.probe()  # if a call fails after this, the endpoint had the batch
            request = self._asking.request(self._tensor, inputs, batch.parameters, str(batch.id))
            content = await self._call("ModelInfer", request, headers)
            note_status(batch, _OK)
            answer = self._reader.read(content, str(batch.id), len(inputs))
            return Result(answer.outputs, answer.version[:_SHOWN])
        except grpc.aio.AioRpcError as error:
            number, _ = error.code().value
            note_status(batch, number)
            raise await self._no_answer(error, inputs) from error
        finally:
            self._busy = False

    async def _call(
        self,
        method: str,
        request: bytes,
        headers: Mapping[str, str] | None = None,
        timeout: Seconds | None = None,
    ) -> bytes:
        channel = self._open()
        ask = channel.unary_unary(f"/{SERVICE}/{method}", None, None)  # bytes both ways
        metadata = grpc.aio.Metadata(*self._headers.items(), *(headers or {}).items())
        try:
            return cast(bytes, await ask(request, metadata=metadata, timeout=timeout))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._channel is not channel and task is not None and not task.cancelling():
                # Nobody cancelled this task: gRPC cancels the calls of a channel that is closed.
                raise BackendUnavailable(f"the connection to {self._where} was closed") from None
            raise

    def _no_health(self, error: grpc.aio.AioRpcError) -> BackendError:
        match error.code():
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                return BackendUnavailable(
                    f"{self._where} did not answer the health probe within {self._probe_timeout:g} s"
                )
            case grpc.StatusCode.UNAVAILABLE:
                return BackendUnavailable(f"{self._where} cannot be reached: {_message(error)}")
            case grpc.StatusCode.UNIMPLEMENTED:
                return BackendUnavailable(f"{self._where} does not speak the Open Inference Protocol v2")
            case code:
                return BackendUnavailable(
                    f"{self._where} answered its health probe with {code.name}: {_message(error)}"
                )

    async def _no_answer(self, error: grpc.aio.AioRpcError, inputs: Sequence[bytes]) -> BackendError:
        code, message = error.code(), _message(error)
        if code is grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE in message:
            limit = self._settings.max_response
            return BatchRejected(f"a message was too large; grpc.max_response is {limit}", details=message)
        if code is grpc.StatusCode.UNAVAILABLE and (_LOST.search(message) or await self._connection_lost()):
            # The endpoint had the batch, and may have died of it.
            return BackendCrashed(f"{self._where} gave no answer: {message}")
        if code in _MAY_BE_MEMORY and says_out_of_memory(message, inputs):
            return BackendOutOfMemory(f"endpoint answered {code.name}", details=message)
        if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED):
            return refused_for_now(
                f"endpoint answered {code.name}",
                busy=code is grpc.StatusCode.RESOURCE_EXHAUSTED,
                wait=delay_in(error.trailing_metadata() or ()),
                details=message,
            )
        return BatchRejected(f"endpoint answered {code.name}", details=message)

    async def _connection_lost(self) -> bool:
        """Returns whether the status was gRPC's own and not the endpoint's, which looks the same."""
        channel = self._channel
        if channel is None:
            return True
        try:
            async with asyncio.timeout(_SETTLED):
                await channel.wait_for_state_change(grpc.ChannelConnectivity.READY)
        except TimeoutError:
            return False
        return True

    def _open(self) -> grpc.aio.Channel:
        if self._channel is None:
            raise BackendUnavailable(f"the connection to {self._where} is closed")
        return self._channel


def _headers(settings: GrpcSettings, environ: Mapping[str, str]) -> dict[str, str]:
    headers = {}
    for name, value in settings.headers.items():
        headers[name.lower()] = from_environment(value, environ, f"grpc.headers: {name}")
        if not headers[name.lower()].isascii():
            raise UserMistake(f"grpc.headers: {name} cannot be sent: only ASCII can")
    return headers


def _message(error: grpc.aio.AioRpcError) -> str:
    """Returns the part of the message that tells of the last error; the part before it is always the same."""
    last = (error.details() or "").rpartition("last error: ")[2]
    return (last or error.code().name)[:_SHOWN]
