"""`penstock batcher`: forms batches from what the gateways have accepted, and sends them to the workers."""

import asyncio
import time

from penstock.adapters.observe.metrics import Metrics
from penstock.cluster.batcher import BatcherMember
from penstock.config import Config
from penstock.ports import Clock
from penstock.roles.process import Process
from penstock.roles.redis import Redis


def batcher(config: Config, loop: asyncio.AbstractEventLoop, clock: Clock = time.monotonic) -> Process:
    redis, metrics = Redis(config), Metrics(())
    member = BatcherMember(
        config,
        redis.bus,
        redis.shards,
        redis.records,
        observer=metrics,
        on_model=metrics.add_model,
        loop=loop,
        clock=clock,
        wall_clock=time.time,
    )
    return Process(member, config, metrics, aside=redis.bus.aside)
