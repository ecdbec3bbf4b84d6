"""`penstock serve`: one process that holds gateway, batchers and slots; functions run in child processes. It reads
the options and the configuration; `roles/serve.py` runs the server."""

import os
from functools import partial
from typing import Annotated

import typer
import uvloop

from penstock import logs
from penstock.cli.console import figures_line
from penstock.cli.doubts import tell_doubts
from penstock.cli.groups import GivenOptions, takes
from penstock.cli.options import (
    Clients,
    ConfigFile,
    Debug,
    Listening,
    Logs,
    ModelOptions,
    Process,
    Quiet,
    Target,
    Workers,
)
from penstock.cli.try_it import try_it
from penstock.config import Config, find_file, load
from penstock.config.kinds import without_secrets
from penstock.from_config.rules import largest_batch
from penstock.server.listen import AdminListener, DataListener


@takes(ModelOptions, Listening, Clients, Process, Logs)
def serve(
    given: GivenOptions,
    target: Target = None,
    config: ConfigFile = None,
    workers: Workers = None,
    reload: Annotated[
        bool, typer.Option("--reload", help="Start the function anew when its file changes; for development.")
    ] = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> int:
    """Serve TARGET: take single requests over HTTP, run them in batches, answer each asker.

    Examples:

      penstock serve app.py:batchstring --workers 6 --max-batch 32

      penstock serve app.py:Model --gpus 0,1,2 --warmup "a first text"

      penstock serve http://gpu-1:9000/batch --config penstock.toml

      penstock serve grpc://gpu-1:8001/embedder --output json

      penstock serve app.py:batchstring --reload

      penstock serve 'sim:100ms' --workers 6

      penstock serve 'sim:15ms,new_shape=80ms' --batch-sizes powers --warmup "a text"

    A simulated GPU (sim:) has a, b, knee, length, pad, new_shape, jitter, slow_factor, fail, crash, hang, garbage,
    short, poison and seed.

    Everything can be set in penstock.toml and by PENSTOCK_… variables too; the command line wins.
    """
    overrides = given.overrides(model__target=target, model__workers=workers)

    def read() -> Config:
        return load(find_file(config, os.environ), os.environ, overrides)

    settings = read()
    logs.set_up(settings.server.log_level, settings.server.log_format)
    tell_doubts(settings)
    from penstock.roles.serve import serve as run

    announce = partial(_announce, settings)
    return uvloop.run(run(read, announce, reload=reload, say=figures_line(quiet)))


def _announce(config: Config, data: DataListener | None, admin: AdminListener) -> None:
    assert data is not None
    for name, model in config.models.items():
        workers = f"{model.workers} worker{'s' if model.workers > 1 else ''}"
        runs = f"{without_secrets(model.target)}, {workers}"
        typer.echo(f"  {name}: {runs}, up to {largest_batch(model)} a batch, {model.policy}")
    typer.echo(
        f"\n  serving  {data.url}/v1/inference    docs {data.url}/docs    admin {admin.url}/internal/health\n"
    )
    if data.beside is not None:
        typer.echo(f"  serving  {data.beside.url}    protos {data.url}/proto\n")
    typer.echo(f"  {try_it(f'{data.url}/v1/inference', config)}\n")
