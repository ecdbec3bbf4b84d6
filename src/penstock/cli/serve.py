"""`penstock serve`."""

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from penstock import logs
from penstock.config import Config, find_file, load
from penstock.roles.listen import AdminListener, DataListener

Setting = Annotated[str | None, typer.Option(show_default=False)]
TlsCert = Annotated[
    str | None,
    typer.Option(
        "--tls-cert", show_default=False, help="Serve with TLS: a certificate and its chain, in PEM."
    ),
]
TlsKey = Annotated[
    str | None,
    typer.Option("--tls-key", show_default="in --tls-cert", help="Its private key, in PEM."),
]
TlsClientCa = Annotated[
    str | None,
    typer.Option(
        "--tls-client-ca", show_default=False, help="Serve only clients with a certificate that it signed."
    ),
]


def serve(
    target: Annotated[
        str | None,
        typer.Argument(
            show_default=False,
            help="What runs a batch: app.py:function, package.module:function, http://host/path,"
            " grpc://host:port/model or sim:100ms.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", show_default=False, help="penstock.toml is found by itself."),
    ] = None,
    host: Annotated[str | None, typer.Option(show_default="127.0.0.1", help="Where clients connect.")] = None,
    port: Annotated[
        int | None, typer.Option("--port", "-p", show_default="8000", help="0: any free one.")
    ] = None,
    admin_port: Annotated[int | None, typer.Option(show_default="9000", help="Probes and metrics.")] = None,
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
    workers: Annotated[
        int | None, typer.Option("--workers", "-w", show_default="1", help="Batches that run at once.")
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
    log_level: Annotated[
        str | None, typer.Option(show_default="info", help="debug, info, warning, error.")
    ] = None,
    log_format: Annotated[str | None, typer.Option(show_default="auto", help="auto, json or text.")] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> int:
    """Serve TARGET: take single requests over HTTP, run them in batches, answer each asker.

    Examples:

      penstock serve app.py:batchstring --workers 6 --max-batch 32

      penstock serve http://gpu-1:9000/batch --config penstock.toml

      penstock serve grpc://gpu-1:8001/embedder --output json

      penstock serve 'sim:100ms' --workers 6

    Everything can be set in penstock.toml and by PENSTOCK_… variables too; the command line wins.
    """
    overrides = {
        "model.name": model,
        "model.target": target,
        "model.workers": workers,
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
