"""`penstock gateway`, `penstock batcher`, `penstock worker`: the roles of an installation over Redis."""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop

from penstock import logs
from penstock.cli.options import (
    AdminPort,
    AllowAnonymous,
    Auth,
    ConfigFile,
    Debug,
    Gpus,
    Host,
    Input,
    LogFormat,
    LogLevel,
    MaxBatch,
    MaxWait,
    ModelName,
    Output,
    Policy,
    Port,
    ProcessingTimeout,
    RedisUrl,
    RequestTimeout,
    Target,
    TlsCert,
    TlsClientCa,
    TlsKey,
    WarmUp,
    warm_up_inputs,
)
from penstock.config import Config, find_file, load
from penstock.errors import UserMistake


def need_redis() -> None:
    try:
        import redis  # noqa: F401
    except ImportError:
        raise UserMistake("this needs the redis extra: pip install 'penstock[redis]'") from None


def settings_of(config: Path | None, overrides: dict[str, object]) -> Config:
    return load(find_file(config, os.environ), os.environ, overrides)


def run_role(make: Callable[[], Callable[[Config, asyncio.AbstractEventLoop], Any]], settings: Config) -> int:
    """`make` imports the role: what it needs is not there in every installation."""
    logs.set_up(settings.server.log_level, settings.server.log_format)
    need_redis()
    role = make()
    from penstock.roles.life import live

    return uvloop.run(live(partial(role, settings), settings, announce))


def announce(data: Any, admin: Any) -> None:
    serving = f"serving  {data.url}/v1/inference    docs {data.url}/docs    " if data is not None else ""
    typer.echo(f"  {serving}admin {admin.url}/internal/health")


def gateway(
    config: ConfigFile = None,
    redis: RedisUrl = None,
    host: Host = None,
    port: Port = None,
    admin_port: AdminPort = None,
    auth: Auth = None,
    allow_anonymous: AllowAnonymous = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    debug: Debug = False,
) -> int:
    """Take requests over HTTP and hand them to the batchers; answers come back to the connection that asked.

    Any number of them serve side by side. Models are known as soon as a worker has announced them.

    Example: penstock gateway --redis redis://10.0.0.5:6379 --port 8000
    """

    def make() -> Any:
        from penstock.roles.gateway import GatewayRole

        return GatewayRole

    options: dict[str, object] = {
        "redis.url": redis, "server.host": host, "server.port": port, "server.admin_port": admin_port,
        "server.log_level": log_level, "server.log_format": log_format,
        "auth.mode": auth, "auth.allow_anonymous": allow_anonymous,
        "tls.certificate": tls_cert, "tls.key": tls_key, "tls.client_ca": tls_client_ca,
    }  # fmt: skip
    return run_role(make, settings_of(config, options))


def batcher(
    config: ConfigFile = None,
    redis: RedisUrl = None,
    admin_port: AdminPort = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    debug: Debug = False,
) -> int:
    """Form batches from what the gateways have accepted and send them to the workers.

    Several share the work, and take over from one that dies.

    Example: penstock batcher --redis redis://10.0.0.5:6379
    """

    def make() -> Any:
        from penstock.roles.batcher import BatcherRole

        return BatcherRole

    options: dict[str, object] = {
        "redis.url": redis, "server.admin_port": admin_port,
        "server.log_level": log_level, "server.log_format": log_format,
    }  # fmt: skip
    return run_role(make, settings_of(config, options))


def worker(
    target: Target = None,
    config: ConfigFile = None,
    redis: RedisUrl = None,
    slots: Annotated[
        int | None, typer.Option("--slots", "-s", show_default="1", help="Batches that run here at once.")
    ] = None,
    gpus: Gpus = None,
    warmup: WarmUp = None,
    max_batch: MaxBatch = None,
    max_wait: MaxWait = None,
    policy: Policy = None,
    input_kind: Input = None,
    output_kind: Output = None,
    processing_timeout: ProcessingTimeout = None,
    request_timeout: RequestTimeout = None,
    model: ModelName = None,
    admin_port: AdminPort = None,
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    debug: Debug = False,
) -> int:
    """Run batches of TARGET for the batchers: join at any time, leave at any time.

    Example: penstock worker app.py:batchstring --redis redis://10.0.0.5:6379 --slots 2
    """

    def make() -> Any:
        from penstock.roles.worker import WorkerRole

        return WorkerRole

    options: dict[str, object] = {
        "model.name": model, "model.target": target, "model.workers": slots, "model.max_batch": max_batch,
        "model.gpus": gpus, "model.warmup": warm_up_inputs(warmup),
        "model.max_wait": max_wait, "model.policy": policy, "model.input": input_kind,
        "model.output": output_kind, "model.processing_timeout": processing_timeout,
        "model.request_timeout": request_timeout, "redis.url": redis, "server.admin_port": admin_port,
        "server.log_level": log_level, "server.log_format": log_format,
    }  # fmt: skip
    settings = settings_of(config, options)
    if not settings.models:
        raise UserMistake("nothing to run: give a TARGET, or describe a model in penstock.toml")
    return run_role(make, settings)
