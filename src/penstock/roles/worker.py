"""Puts `penstock worker` together, which runs batches of its models for the batchers that take its slots from the
line. `cli/roles.py` hands it to `server/life.py`, which calls it once and starts what was put together."""

import asyncio
import time

from penstock.cluster.worker import WorkerMember
from penstock.config import Config
from penstock.ports import Clock
from penstock.roles.backends import MakeBackend, backend_maker
from penstock.roles.observers import Observing
from penstock.roles.process import Process
from penstock.roles.redis import Redis
from penstock.roles.role import Role
from penstock.server.live_settings import LiveSettings, Read


def worker(
    config: Config,
    loop: asyncio.AbstractEventLoop,
    clock: Clock = time.monotonic,
    *,
    read_again: Read | None = None,
) -> Process:
    """Returns the process. `read_again`: reads the configuration again, for SIGHUP."""
    redis = Redis(config)
    observing = Observing(config, loop, clock, config.models, Role.WORKER)

    def make_backends(model: str, process: str) -> MakeBackend:
        return backend_maker(model, config.models[model], process)

    member = WorkerMember(
        config,
        redis.bus,
        redis.records.endings,
        make_backends,
        observer=observing.told,
        loop=loop,
        clock=clock,
    )
    settings = LiveSettings(config, read_again, member.follow)
    return Process(member, settings, observing, aside=redis.bus.aside)
