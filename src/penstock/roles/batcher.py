"""Puts `penstock batcher` together, which forms batches from what the gateways have accepted and sends them to the
workers. `cli/roles.py` hands it to `server/life.py`, which calls it once and starts what was put together."""

import asyncio
import time

from penstock.cluster.batcher import BatcherMember
from penstock.config import Config
from penstock.ports import Clock
from penstock.roles.observers import Observing
from penstock.roles.process import Process
from penstock.roles.redis import Redis
from penstock.roles.role import Role
from penstock.server.live_settings import LiveSettings, Read


def batcher(
    config: Config,
    loop: asyncio.AbstractEventLoop,
    clock: Clock = time.monotonic,
    *,
    read_again: Read | None = None,
) -> Process:
    """Returns the process. `read_again`: reads the configuration again, for SIGHUP."""
    redis, observing = Redis(config), Observing(config, loop, clock, (), Role.BATCHER)
    member = BatcherMember(
        config,
        redis.bus,
        redis.shards,
        redis.records,
        observer=observing.told,
        on_model=observing.metrics.add_model,
        loop=loop,
        clock=clock,
        wall_clock=time.time,
    )
    settings = LiveSettings(config, read_again, member.follow)
    return Process(member, settings, observing, aside=redis.bus.aside)
