"""`penstock up`."""

import asyncio
import signal
import sys
from typing import Annotated, Any

import typer
import uvloop

from penstock.cli.options import ConfigFile, Debug, LogLevel
from penstock.cli.roles import need_redis, settings_of
from penstock.errors import UserMistake
from penstock.roles.up import Installation, Plan

COLOURS = {"gateway": "36", "batcher": "33", "worker": "32"}


def up(
    target: Annotated[
        str | None,
        typer.Argument(
            show_default=False,
            help="What runs a batch: app.py:function, package.module:function, http://host/path,"
            " grpc://host:port/model or sim:100ms.",
        ),
    ] = None,
    gateways: Annotated[
        int, typer.Option("--gateways", "-g", min=1, max=64, help="HTTP servers, from --port on.")
    ] = 1,
    batchers: Annotated[int, typer.Option("--batchers", min=1, max=64)] = 1,
    workers: Annotated[
        int, typer.Option("--workers", "-w", min=1, max=256, help="Processes, one slot each.")
    ] = 1,
    config: ConfigFile = None,
    redis: Annotated[
        str | None, typer.Option("--redis", show_default="a Valkey of its own", help="An existing Redis.")
    ] = None,
    host: Annotated[str, typer.Option(help="Where clients connect.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", min=1, max=65535, help="Of the first gateway.")] = 8000,
    admin_port: Annotated[
        int, typer.Option(min=1, max=65535, help="Of the first gateway; the others' count up.")
    ] = 9000,
    max_batch: Annotated[
        int | None,
        typer.Option("--max-batch", "-b", show_default="64", help="Requests in one batch at most."),
    ] = None,
    policy: Annotated[
        str | None, typer.Option(show_default="paced", help="paced, window, ewma, table or greedy.")
    ] = None,
    log_level: LogLevel = None,
    debug: Debug = False,
) -> int:
    """Start gateways, batchers and workers on this machine, with a Valkey of their own; Ctrl-C ends all of it.

    Example: penstock up app.py:batchstring --gateways 2 --batchers 2 --workers 6
    """
    need_redis()
    overrides = {"model.target": target, "model.max_batch": max_batch, "model.policy": policy}
    settings = settings_of(config, {**overrides, "server.log_level": log_level})
    if not settings.models:
        raise UserMistake("nothing to run: give a TARGET, or describe a model in penstock.toml")
    shared = ["--log-format", "text"]
    shared += ["--config", str(config)] if config is not None else []
    shared += ["--log-level", log_level] if log_level is not None else []
    shared += ["--debug"] if debug else []
    working = ["--max-batch", str(max_batch)] if max_batch is not None else []
    working += ["--policy", policy] if policy is not None else []
    plan = Plan(
        gateways, batchers, workers, host, port, admin_port, target, redis, shared, working,
        {"PYTHONUNBUFFERED": "1"}, settings,
    )  # fmt: skip
    plan.check(settings)
    return uvloop.run(_run(plan))


async def _run(plan: Plan) -> int:
    loop = asyncio.get_running_loop()
    asked, hurry = asyncio.Event(), asyncio.Event()

    def interrupted() -> None:
        if asked.is_set():
            hurry.set()
        asked.set()

    loop.add_signal_handler(signal.SIGINT, interrupted)
    loop.add_signal_handler(signal.SIGTERM, asked.set)
    installation = Installation(plan, _say)
    typer.echo(f"  starting {plan.gateways + plan.batchers + plan.workers} processes …")
    starting = asyncio.ensure_future(installation.start())
    waiting = asyncio.ensure_future(asked.wait())
    try:
        await asyncio.wait([starting, waiting], return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            _announce(plan, starting.result(), installation.redis)
            either: list[asyncio.Future[Any]] = [waiting, installation.broken]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if installation.broken.done():
                installation.broken.result()
        typer.echo("  stopping; Ctrl-C again ends it at once")
        return 0
    finally:
        starting.cancel()
        waiting.cancel()
        await _end(installation, hurry)


async def _end(installation: Installation, hurry: asyncio.Event) -> None:
    stopping = asyncio.ensure_future(installation.stop())
    hurried = asyncio.ensure_future(hurry.wait())
    await asyncio.wait([stopping, hurried], return_when=asyncio.FIRST_COMPLETED)
    hurried.cancel()
    if not stopping.done():
        stopping.cancel()
        await installation.kill()


def _announce(plan: Plan, banners: dict[str, str], redis: str) -> None:
    width = max(map(len, banners))
    typer.echo("")
    for name, banner in banners.items():
        typer.echo(f"  {name:<{width}}  {banner}")
    typer.echo(f"  {'redis':<{width}}  {redis}\n")
    url = next(word for banner in banners.values() for word in banner.split() if word.endswith("/inference"))
    typer.echo(f'  try it:  curl {url} --json \'{{"input": "hello"}}\'\n')


def _say(name: str, line: str) -> None:
    label = f"{name:<10}"
    if sys.stderr.isatty():
        label = f"\x1b[{COLOURS[name.partition('-')[0]]}m{label}\x1b[0m"
    print(f"{label} | {line}", file=sys.stderr, flush=True)
