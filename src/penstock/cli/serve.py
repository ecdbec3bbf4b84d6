"""`penstock serve`."""

import os
from functools import partial
from typing import Annotated

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
    RequestTimeout,
    Target,
    TlsCert,
    TlsClientCa,
    TlsKey,
    WarmUp,
    warm_up_inputs,
)
from penstock.config import Config, find_file, load
from penstock.roles.listen import AdminListener, DataListener


def serve(
    target: Target = None,
    config: ConfigFile = None,
    host: Host = None,
    port: Port = None,
    admin_port: AdminPort = None,
    auth: Auth = None,
    allow_anonymous: AllowAnonymous = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_client_ca: TlsClientCa = None,
    workers: Annotated[
        int | None, typer.Option("--workers", "-w", show_default="1", help="Batches that run at once.")
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
    log_level: LogLevel = None,
    log_format: LogFormat = None,
    debug: Debug = False,
) -> int:
    """Serve TARGET: take single requests over HTTP, run them in batches, answer each asker.

    Examples:

      penstock serve app.py:batchstring --workers 6 --max-batch 32

      penstock serve app.py:Model --gpus 0,1,2 --warmup "a first text"

      penstock serve http://gpu-1:9000/batch --config penstock.toml

      penstock serve grpc://gpu-1:8001/embedder --output json

      penstock serve 'sim:100ms' --workers 6

    Everything can be set in penstock.toml and by PENSTOCK_… variables too; the command line wins.
    """
    overrides = {
        "model.name": model,
        "model.target": target,
        "model.workers": workers,
        "model.gpus": gpus,
        "model.warmup": warm_up_inputs(warmup),
        "model.max_batch": max_batch,
        "model.max_wait": max_wait,
        "model.policy": policy,
        "model.input": input_kind,
        "model.output": output_kind,
        "model.processing_timeout": processing_timeout,
        "model.request_timeout": request_timeout,
        "server.host": host,
        "server.port": port,
        "server.admin_port": admin_port,
        "auth.mode": auth,
        "auth.allow_anonymous": allow_anonymous,
        "tls.certificate": tls_cert,
        "tls.key": tls_key,
        "tls.client_ca": tls_client_ca,
        "server.log_level": log_level,
        "server.log_format": log_format,
    }
    settings = load(find_file(config, os.environ), os.environ, overrides)
    logs.set_up(settings.server.log_level, settings.server.log_format)
    from penstock.roles.serve import serve as run

    return uvloop.run(run(settings, partial(_announce, settings)))


def _announce(config: Config, data: DataListener | None, admin: AdminListener) -> None:
    assert data is not None
    for name, model in config.models.items():
        workers = f"{model.workers} worker{'s' if model.workers > 1 else ''}"
        typer.echo(f"  {name}: {model.target}, {workers}, up to {model.max_batch} a batch, {model.policy}")
    typer.echo(
        f"\n  serving  {data.url}/v1/inference    docs {data.url}/docs    admin {admin.url}/internal/health\n"
    )
    only = next(iter(config.models)) if len(config.models) == 1 else None
    choice = "" if only else f', "model": "{next(iter(config.models))}"'
    typer.echo(f'  try it:  curl {data.url}/v1/inference --json \'{{"input": "hello"{choice}}}\'\n')
