"""`penstock serve`: everything in one process."""

from dataclasses import replace
from functools import partial

from penstock.config import Config
from penstock.errors import UserMistake
from penstock.roles.embedded import Embedded
from penstock.roles.life import Announce, live


async def serve(config: Config, announce: Announce, *, reload: bool = False) -> int:
    """Serve until a signal says otherwise; the exit code."""
    if not config.models:
        raise UserMistake("nothing to serve: give a TARGET, or describe a model in penstock.toml")
    if reload:  # what an older form of the function has answered must not be given again
        models = {name: replace(model, cache="off") for name, model in config.models.items()}
        config = replace(config, models=models)
    return await live(partial(Embedded, config, reload=reload), config, announce)
