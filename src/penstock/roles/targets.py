"""Tries whether each target works, for `penstock check`: loads a function in a process of its own, or connects to
an endpoint. No batch is run."""

import asyncio
import time
from dataclasses import dataclass, replace

from penstock.config import Config, Model
from penstock.config.kinds import without_secrets
from penstock.errors import BackendError, UserMistake
from penstock.roles.backends import backend_maker


@dataclass(frozen=True, slots=True)
class Found:
    """Whether one target works."""

    key: str  # the name of the setting that holds the target
    target: str
    error: str  # what is wrong; empty where the target works
    seconds: float  # how long it took to get ready


async def try_targets(config: Config) -> list[Found]:
    """Try all targets at once. Nothing is run through them, not even warm-up inputs."""
    tried = [(f"models.{name}.target", replace(model, warmup=None)) for name, model in config.models.items()]
    for name, model in config.models.items():
        if ":" in model.cost:
            cost = Model(target=model.cost, input=model.input, output="json", warmup=None)
            tried.append((f"models.{name}.cost", cost))
    return list(await asyncio.gather(*(_try(key, model) for key, model in tried)))


async def _try(key: str, model: Model) -> Found:
    began = time.monotonic()
    error = ""
    try:
        backend = backend_maker(key, model)(0)
        try:
            async with asyncio.timeout(model.start_timeout):
                await backend.start()
                await backend.probe()
        finally:
            await backend.close()
    except (UserMistake, BackendError) as failed:
        error = failed.message
    except TimeoutError:
        error = f"not ready within {model.start_timeout:g} s; raise start_timeout if it needs more"
    return Found(key, without_secrets(model.target), error, round(time.monotonic() - began, 3))
