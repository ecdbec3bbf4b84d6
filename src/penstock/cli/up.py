"""`penstock up`: starts a whole installation over Redis on this machine. It reads the options, makes the plan and
runs the `Installation`; `installation/` starts the processes and looks after them."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

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
    Logs,
    ModelOptions,
    Quiet,
    Scaling,
    Target,
    scaling_span,
)
from penstock.cli.roles import need_redis, settings_of
from penstock.cli.try_it import try_it
from penstock.cli.up_console import Console
from penstock.config import Autoscaler, Config
from penstock.errors import UserMistake
from penstock.installation.fetched_figures import figures_of
from penstock.installation.plan import UpPlan
from penstock.installation.supervisor import Installation
from penstock.roles.up import check, installation
from penstock.server.figures import Pages, Say, show

FIRST_PORT, FIRST_ADMIN_PORT = 8000, 9000  # used where the configuration says 0


@takes(ModelOptions, Scaling, Clients, Logs)
def up(
    given: GivenOptions,
    target: Target = None,
    gateways: Annotated[
        int, typer.Option("--gateways", "-g", min=1, max=64, help="HTTP servers, from --port on.")
    ] = 1,
    batchers: Annotated[
        int, typer.Option("--batchers", min=1, max=64, help="Processes that form batches.")
    ] = 1,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            "-w",
            min=1,
            max=256,
            show_default="one for each of --gpus, or 1",
            help="Processes that run batches.",
        ),
    ] = None,
    autoscale: Annotated[
        str | None,
        typer.Option(
            show_default=False,
            help="Workers come and go by the load, within 1..8; --workers is the number at first.",
        ),
    ] = None,
    config: ConfigFile = None,
    redis: Annotated[
        str | None, typer.Option("--redis", show_default="a Valkey of its own", help="An existing Redis.")
    ] = None,
    host: Annotated[str | None, typer.Option(show_default="127.0.0.1", help="Where clients connect.")] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            "-p",
            min=1,
            max=65535,
            show_default="8000",
            help="Of the first gateway; the others' count up.",
        ),
    ] = None,
    grpc_port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            show_default="no gRPC",
            help="Serve gRPC too: of the first gateway; the others' count up.",
        ),
    ] = None,
    admin_port: Annotated[
        int | None,
        typer.Option(
            min=1, max=65535, show_default="9000", help="Of the first gateway; the others' count up."
        ),
    ] = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> int:
    """Start gateways, batchers and workers on this machine, with a Valkey of their own; Ctrl-C ends all of it.

    Examples:

      penstock up app.py:batchstring --gateways 2 --batchers 2 --workers 6

      penstock up app.py:embed --workers 4 --max-batch 32 --output json --auth keys

      penstock up app.py:batchstring --autoscale 1..8
    """
    need_redis()
    overrides = given.overrides(
        model__target=target,
        server__host=host,
        server__port=port,
        server__grpc_port=grpc_port,
        server__admin_port=admin_port,
    )
    settings = settings_of(config, {**overrides, **scaling_span(autoscale)})
    if not settings.models:
        raise UserMistake("nothing to run: give a TARGET, or describe a model in penstock.toml")
    if settings.files.directory and gateways > 1:
        raise UserMistake(
            "files.directory belongs to one process: start one gateway, or several by hand with one directory each"
        )
    logs.set_up(settings.server.log_level, "text")
    gpus = (given.values["gpus"] or "").replace(",", " ").split()
    shared = ["--log-format", "text", *given.as_arguments(Logs)]
    shared += ["--config", str(config)] if config is not None else []
    shared += ["--debug"] if debug else []
    tell_doubts(settings, over_redis=True)
    scaled = autoscale is not None
    first, most = first_workers(settings.autoscaler, workers, gpus) if scaled else (workers, 0)
    plan = UpPlan(
        gateways=gateways,
        batchers=batchers,
        workers=first or max(1, len(gpus)),
        most_workers=most,
        host=settings.server.host,
        port=settings.server.port or FIRST_PORT,
        grpc_port=settings.server.grpc_port,
        admin_port=settings.server.admin_port or FIRST_ADMIN_PORT,
        target=target,
        redis=redis,
        shared=shared,
        serving=given.as_arguments(Clients),
        working=["--no-doubts", *given.as_arguments(ModelOptions, but=["gpus"])],  # `up` itself tells doubts
        scaling=["--autoscale", autoscale, *given.as_arguments(Scaling)] if autoscale is not None else [],
        gpus=gpus,
        environment={"PYTHONUNBUFFERED": "1"},
        config=settings,
    )
    check(plan)
    return uvloop.run(_run(plan, settings, figures_of(plan, settings), figures_line(quiet)))


def first_workers(scaling: Autoscaler, workers: int | None, gpus: Sequence[str]) -> tuple[int, int]:
    """Returns how many workers there are at first, and how many at most, with those that are leaving. At first
    there is one at least, so that its model is known. Raises UserMistake."""
    least, most = max(1, scaling.minimum), scaling.maximum
    if gpus and most > len(gpus):
        raise UserMistake(
            f"--autoscale goes up to {most}, and --gpus names {len(gpus)}: one worker has one GPU"
        )
    # While a worker that leaves finishes its batch, another may be started; but not on the same GPU.
    return max(least, min(most, workers or least)), most if gpus else 2 * most


async def _run(plan: UpPlan, settings: Config, fetch: Callable[[], Awaitable[Pages]], say: Say | None) -> int:
    loop = asyncio.get_running_loop()
    asked, hurry = asyncio.Event(), asyncio.Event()

    def interrupted() -> None:
        if asked.is_set():
            hurry.set()
        asked.set()

    loop.add_signal_handler(signal.SIGINT, interrupted)
    loop.add_signal_handler(signal.SIGTERM, asked.set)
    console = Console(loop)
    whole = installation(plan, console.say)
    loop.add_signal_handler(signal.SIGHUP, whole.hang_up)
    processes = plan.gateways + plan.batchers + plan.workers + bool(plan.most_workers)
    typer.echo(f"  starting {processes} processes …")
    showing: asyncio.Future[None] | None = None
    starting = asyncio.ensure_future(whole.start())
    waiting = asyncio.ensure_future(asked.wait())
    try:
        await asyncio.wait([starting, waiting], return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            _announce(starting.result(), whole.redis, settings)
            if say is not None:
                showing = asyncio.ensure_future(show(fetch, say))
            either: list[asyncio.Future[Any]] = [waiting, whole.broken]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if whole.broken.done():
                whole.broken.result()
        typer.echo("  stopping; Ctrl-C again ends it at once")
        return 0
    finally:
        starting.cancel()
        waiting.cancel()
        if showing is not None:
            showing.cancel()
        await _end(whole, hurry)
        await console.empty()


async def _end(whole: Installation, hurry: asyncio.Event) -> None:
    stopping = asyncio.ensure_future(whole.stop())
    hurried = asyncio.ensure_future(hurry.wait())
    await asyncio.wait([stopping, hurried], return_when=asyncio.FIRST_COMPLETED)
    hurried.cancel()
    if not stopping.done():
        stopping.cancel()
        await whole.kill()


def _announce(banners: dict[str, str], redis: str, settings: Config) -> None:
    width = max(map(len, banners))
    typer.echo("")
    for name, banner in banners.items():
        typer.echo(f"  {name:<{width}}  {banner}")
    typer.echo(f"  {'redis':<{width}}  {redis}\n")
    url = next(word for banner in banners.values() for word in banner.split() if word.endswith("/inference"))
    typer.echo(f"  {try_it(url, settings)}\n")
