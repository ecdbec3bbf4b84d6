"""Runs `penstock serve`: one process that holds gateway, batchers and slots. `cli/serve.py` calls `serve`, which
returns when the server has stopped."""

import asyncio
from dataclasses import replace

from penstock.config import Config
from penstock.errors import UserMistake
from penstock.roles.embedded import embedded
from penstock.roles.process import Process
from penstock.server.figures import Pages, Say, show
from penstock.server.life import Announce, live
from penstock.server.live_settings import Read


async def serve(read: Read, announce: Announce, *, reload: bool = False, say: Say | None = None) -> int:
    """Serve until a signal ends it. Returns the exit code. `read`: reads the configuration, now and on SIGHUP.
    `say`: called with a line of figures every few seconds."""

    def read_again() -> Config:
        config = read()
        return _without_caches(config) if reload else config

    config = read_again()
    if not config.models:
        raise UserMistake("nothing to serve: give a TARGET, or describe a model in penstock.toml")
    showing: list[asyncio.Task[None]] = []

    def make(loop: asyncio.AbstractEventLoop) -> Process:
        role = embedded(config, loop, reload=reload, read_again=read_again)

        async def fetch() -> Pages:
            page = [role.metrics()[0].decode()]
            return Pages(page, page, page)

        if say is not None:
            showing.append(loop.create_task(show(fetch, say)))
        return role

    try:
        return await live(make, config, announce)
    finally:
        for task in showing:
            task.cancel()


def _without_caches(config: Config) -> Config:
    """Returns the configuration with all caches off: an answer of an older version of a function must not be given
    again."""
    models = {name: replace(model, cache="off") for name, model in config.models.items()}
    return replace(config, models=models)
