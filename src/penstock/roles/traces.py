"""Makes the parts that trace a process (spans, exporter, receiver, sampler) and puts them together. Only
`tracing.py` imports it, and only if the configuration asks for traces."""

import asyncio
import os
import socket
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import penstock
from penstock.adapters.tracing.batch_spans import BatchSpans
from penstock.adapters.tracing.exporter import Exporter, Gathering
from penstock.adapters.tracing.otlp import Kind, Value, attributes, request_head
from penstock.adapters.tracing.receiver import Receiver, ReceiverSettings
from penstock.adapters.tracing.request_spans import RequestSpans
from penstock.adapters.tracing.run_spans import Runner, RunSpans
from penstock.adapters.tracing.sampler import Sampler
from penstock.config import Config, Model, Tracing
from penstock.from_config.tiers import tier_names
from penstock.ports import BatchObserver, Clock
from penstock.ports.tracing import RequestTracer
from penstock.roles.role import Role

NAME, RELEASE = "penstock", penstock.__version__
PATH = "/v1/traces"  # of a receiver whose endpoint has no path
SERVICE = "inference.GRPCInferenceService"  # of the Open Inference Protocol, which gRPC endpoints speak


class Traces(BatchObserver):
    """What traces the requests and batches of a process. It closes the exporter, whoever else writes to it."""

    def __init__(
        self, exporter: Exporter, tracer: RequestTracer | None, batches: BatchObserver | None
    ) -> None:
        self.exporter, self.tracer = exporter, tracer
        self.observers: Sequence[BatchObserver] = [self] if batches is None else [batches, self]

    async def close(self) -> None:
        await self.exporter.close()


def traces_of(config: Config, role: Role, loop: asyncio.AbstractEventLoop, clock: Clock) -> Traces:
    """Returns what traces a process of this role."""
    tracing = config.tracing
    settings = ReceiverSettings(
        address_of(tracing.endpoint), tracing.headers, tracing.timeout, tracing.compression == "gzip",
        tracing.ca_file, tracing.client_certificate, tracing.client_key,
    )  # fmt: skip
    head = request_head(resource_of(tracing, role), NAME, RELEASE)
    receiver = Receiver(settings, head, f"{NAME}/{RELEASE}")
    gathering = Gathering(tracing.max_queue, min(tracing.together, tracing.max_queue), tracing.delay)
    exporter = Exporter(receiver, loop, clock, gathering)
    tiers = tier_names(config)
    tracer: RequestTracer | None = None
    batches: BatchObserver | None = None
    if role.answers:
        scheme = "https" if config.tls.certificate else "http"
        tracer = RequestSpans(Sampler(tracing.sampler, tracing.ratio), exporter, clock, tiers, scheme)
    runners = {name: runner_of(model) for name, model in config.models.items()} if role.runs else None
    if role.forms:
        batches = BatchSpans(exporter, tiers, runners, tracing.max_links)
    elif runners is not None:
        batches = RunSpans(exporter, runners)
    return Traces(exporter, tracer, batches)


def address_of(endpoint: str) -> str:
    """Returns the address that spans are posted to."""
    parts = urlsplit(endpoint)
    return endpoint if parts.path else parts._replace(path=PATH).geturl()


def resource_of(tracing: Tracing, role: Role) -> Mapping[str, Value]:
    """Returns the attributes that describe this process. Those of the configuration go before ours; only
    `service.name` has a setting of its own."""
    name = NAME if role is Role.SERVE else f"{NAME}-{role.called}"
    host = socket.gethostname()
    return {
        "service.version": RELEASE,
        "service.instance.id": f"{host}-{os.getpid()}",
        "host.name": host,
        "process.pid": os.getpid(),
        "telemetry.sdk.language": "python",
        "telemetry.sdk.name": NAME,
        "telemetry.sdk.version": RELEASE,
        **tracing.attributes,
        "service.name": tracing.service or name,
    }


def runner_of(model: Model) -> Runner:
    """Returns what the spans of a model's runs say of what runs it. No part of an address is said that may be a
    secret."""
    if not model.protocol:
        return Runner(Kind.INTERNAL, attributes({"penstock.target": model.target}))
    parts = urlsplit(model.target)
    told: dict[str, Value] = {"server.address": parts.hostname or ""}
    if parts.port is not None:
        told["server.port"] = parts.port
    if model.protocol == "http":
        host = parts.netloc.rpartition("@")[2]
        told |= {"http.request.method": model.http.method, "url.full": f"{parts.scheme}://{host}{parts.path}"}
        status = "http.response.status_code"
    else:
        told |= {"rpc.system": "grpc", "rpc.service": SERVICE, "rpc.method": "ModelInfer"}
        status = "rpc.grpc.status_code"
    return Runner(Kind.CLIENT, attributes(told), status)
