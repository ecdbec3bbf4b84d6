"""`penstock gateway`, `batcher`, `worker` and `autoscaler`: each starts one process of an installation over Redis.
They call `roles/gateway.py`, `roles/batcher.py`, `roles/worker.py` and `roles/autoscaler.py`. Other commands use
`need_redis` and `settings_of` too."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop

from penstock import logs
from penstock.cli.doubts import tell_doubts
from penstock.cli.groups import GivenOptions, takes
from penstock.cli.options import (
    Clients,
    ConfigFile,
    Debug,
    Listening,
    Logs,
    ModelOptions,
    Named,
    Process,
    RedisUrl,
    Scaling,
    Slots,
    Target,
    scaling_span,
)
from penstock.config import Config, find_file, load
from penstock.errors import UserMistake
from penstock.server.live_settings import Read


def need_redis() -> None:
    """Raises UserMistake if the library for Redis is not installed."""
    try:
        import redis  # noqa: F401
    except ImportError:
        raise UserMistake("this needs the redis extra: pip install 'penstock[redis]'") from None


def settings_of(config: Path | None, overrides: dict[str, object]) -> Config:
    """Returns the configuration. `config`: the file that --config names. `overrides`: what options set, by key."""
    return load(find_file(config, os.environ), os.environ, overrides)


def run_role(
    make: Callable[[], Callable[..., Any]],
    read: Read,
    *,
    with_doubts: bool = False,
) -> int:
    """Runs a role, and returns the exit code. `make`: imports the role. It is called only now, because not every
    installation has the libraries that the role needs. `read`: reads the configuration, now and on SIGHUP."""
    settings = read()
    logs.set_up(settings.server.log_level, settings.server.log_format)
    if with_doubts:
        tell_doubts(settings, over_redis=True)
    need_redis()
    role = make()
    from penstock.server.life import live

    return uvloop.run(live(partial(role, settings, read_again=read), settings, announce))


def announce(data: Any, admin: Any) -> None:
    """Prints where the process can be reached. `data`, `admin`: the listeners; `data` is None without clients."""
    serving = f"serving  {data.url}/v1/inference    docs {data.url}/docs    " if data is not None else ""
    if data is not None and data.beside is not None:
        serving += f"{data.beside.url}    "
    typer.echo(f"  {serving}admin {admin.url}/internal/health")


@takes(Listening, Clients, Named, Process, Logs)
def gateway(
    given: GivenOptions, config: ConfigFile = None, redis: RedisUrl = None, debug: Debug = False
) -> int:
    """Take requests over HTTP and hand them to the batchers; answers come back to the connection that asked.

    Any number of them serve side by side. Models are known as soon as a worker has announced them.

    Example: penstock gateway --redis redis://10.0.0.5:6379 --port 8000
    """

    def make() -> Any:
        from penstock.roles import gateway

        return gateway.gateway

    return run_role(make, partial(settings_of, config, given.overrides(redis__url=redis)))


@takes(Named, Process, Logs)
def batcher(
    given: GivenOptions, config: ConfigFile = None, redis: RedisUrl = None, debug: Debug = False
) -> int:
    """Form batches from what the gateways have accepted and send them to the workers.

    Several share the work, and take over from one that dies.

    Example: penstock batcher --redis redis://10.0.0.5:6379
    """

    def make() -> Any:
        from penstock.roles import batcher

        return batcher.batcher

    return run_role(make, partial(settings_of, config, given.overrides(redis__url=redis)))


@takes(ModelOptions, Named, Process, Logs)
def worker(
    given: GivenOptions,
    target: Target = None,
    config: ConfigFile = None,
    redis: RedisUrl = None,
    slots: Slots = None,
    no_doubts: Annotated[
        bool, typer.Option("--no-doubts", hidden=True, help="Do not tell doubts about settings.")
    ] = False,
    debug: Debug = False,
) -> int:
    """Run batches of TARGET for the batchers: join at any time, leave at any time.

    Example: penstock worker app.py:batchstring --redis redis://10.0.0.5:6379 --slots 2
    """

    def make() -> Any:
        from penstock.roles import worker

        return worker.worker

    overrides = given.overrides(model__target=target, model__workers=slots, redis__url=redis)

    def read() -> Config:
        settings = settings_of(config, overrides)
        if not settings.models:
            raise UserMistake("nothing to run: give a TARGET, or describe a model in penstock.toml")
        return settings

    return run_role(make, read, with_doubts=not no_doubts)


@takes(Scaling, Named, Process, Logs)
def autoscaler(
    given: GivenOptions,
    autoscale: Annotated[
        str | None,
        typer.Option("--autoscale", show_default="1..8", help="How many workers at least, and at most."),
    ] = None,
    act: Annotated[
        str | None,
        typer.Option(
            show_default="tell",
            help="tell: /internal/scale and metrics only; kubernetes: a Deployment; command: one of yours.",
        ),
    ] = None,
    deployment: Annotated[
        str | None, typer.Option(show_default=False, help="With --act kubernetes: the workers' Deployment.")
    ] = None,
    account: Annotated[
        str | None,
        typer.Option(
            show_default="where Kubernetes puts it", help="The folder of the pod's service account."
        ),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(show_default=False, help="With --act command: what to run; say {workers} in it."),
    ] = None,
    present: Annotated[
        int | None,
        typer.Option(
            hidden=True, help="Workers that the supervisor has which started this, and reads its lines."
        ),
    ] = None,
    config: ConfigFile = None,
    redis: RedisUrl = None,
    debug: Debug = False,
) -> int:
    """Decide how many workers there should be, and have them added and removed.

    Several may run: one decides, and the others stand by.

    Examples:

      penstock autoscaler --redis redis://10.0.0.5:6379 --autoscale 1..8 --act kubernetes --deployment workers

      penstock autoscaler --autoscale 2..20 --act command --command 'nomad job scale penstock {workers}'
    """

    def make() -> Any:
        from penstock.roles import autoscaler

        return partial(autoscaler.autoscaler, present=present)

    overrides = given.overrides(
        redis__url=redis,
        autoscaler__act=act,
        autoscaler__deployment=deployment,
        autoscaler__account=account,
        autoscaler__command=command,
    )
    return run_role(make, partial(settings_of, config, {**overrides, **scaling_span(autoscale)}))
