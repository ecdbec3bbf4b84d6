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
from penstock.cli.serve import TlsCert, TlsClientCa, TlsKey
from penstock.config import Config, find_file, load
from penstock.errors import UserMistake

ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", show_default=False, help="penstock.toml is found by itself.")
]
RedisUrl = Annotated[
    str | None,
    typer.Option(
        "--redis",
        show_default="redis://127.0.0.1:6379",
        help="redis://, rediss:// or redis+cluster://h:p,h:p.",
    ),
]
AdminPort = Annotated[
    int | None, typer.Option(show_default="9000", help="Probes and metrics; 0: any free one.")
]
LogLevel = Annotated[str | None, typer.Option(show_default="info", help="debug, info, warning, error.")]
LogFormat = Annotated[str | None, typer.Option(show_default="auto", help="auto, json or text.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]


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
    host: Annotated[str | None, typer.Option(show_default="127.0.0.1", help="Where clients connect.")] = None,
    port: Annotated[
        int | None, typer.Option("--port", "-p", show_default="8000", help="0: any free one.")
    ] = None,
    admin_port: AdminPort = None,
    auth: Annotated[
        str | None,
        typer.Option(show_default="none on loopback", help="Who may ask: none, keys, jwt or keys+jwt."),
    ] = None,
    allow_anonymous: Annotated[
        bool | None,
        typer.Option("--allow-anonymous", help="With --auth none: let anybody ask, from wherever."),
    ] = None,
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
    target: Annotated[
        str | None,
        typer.Argument(
            show_default=False,
            help="What runs a batch: app.py:function, package.module:function, http://host/path,"
            " grpc://host:port/model or sim:100ms.",
        ),
    ] = None,
    config: ConfigFile = None,
    redis: RedisUrl = None,
    slots: Annotated[
        int | None, typer.Option("--slots", "-s", show_default="1", help="Batches that run here at once.")
    ] = None,
    max_batch: Annotated[
        int | None,
        typer.Option("--max-batch", "-b", show_default="64", help="Requests in one batch at most."),
    ] = None,
    max_wait: Annotated[
        str | None, typer.Option(show_default="50ms", help="Longest wait for company while a worker is free.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(show_default="paced", help="paced, window, ewma, table or greedy.")
    ] = None,
    input_kind: Annotated[
        str | None, typer.Option("--input", show_default="text", help="text, or json for any value.")
    ] = None,
    output_kind: Annotated[
        str | None, typer.Option("--output", show_default="text", help="text, or json for any value.")
    ] = None,
    processing_timeout: Annotated[
        str | None, typer.Option(show_default="3s", help="A batch that takes longer is given up.")
    ] = None,
    request_timeout: Annotated[
        str | None, typer.Option(show_default="4s", help="Answered by then, or 504.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", show_default=False, help="The model that these options mean.")
    ] = None,
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
        "model.max_wait": max_wait, "model.policy": policy, "model.input": input_kind,
        "model.output": output_kind, "model.processing_timeout": processing_timeout,
        "model.request_timeout": request_timeout, "redis.url": redis, "server.admin_port": admin_port,
        "server.log_level": log_level, "server.log_format": log_format,
    }  # fmt: skip
    settings = settings_of(config, options)
    if not settings.models:
        raise UserMistake("nothing to run: give a TARGET, or describe a model in penstock.toml")
    return run_role(make, settings)
