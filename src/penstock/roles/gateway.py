"""`penstock gateway`: takes requests over HTTP and hands them to the batchers through Redis."""

import asyncio
import time

from penstock.adapters.observe.ended import Ended
from penstock.adapters.observe.metrics import Metrics
from penstock.adapters.redis.records.api_keys import RedisKeys
from penstock.cluster.gateway import GatewayMember
from penstock.config import Config
from penstock.ports import Clock
from penstock.roles.auth import doorkeeper
from penstock.roles.companions import all_of
from penstock.roles.data_plane import data_plane
from penstock.roles.ledger import ledger_of
from penstock.roles.observers import request_log_of, told_all
from penstock.roles.process import Process
from penstock.roles.redis import Redis


def gateway(config: Config, loop: asyncio.AbstractEventLoop, clock: Clock = time.monotonic) -> Process:
    redis, metrics = Redis(config), Metrics(())
    ended, ledger = Ended(clock, time.time), ledger_of(config, loop, clock)
    request_log = request_log_of(config, loop)
    keeper = doorkeeper(config, lambda file: RedisKeys(redis.store))
    member = GatewayMember(
        config,
        redis.bus,
        redis.shards,
        redis.records,
        observer=told_all(metrics, ended, ledger, request_log),
        on_model=metrics.add_model,
        find_ended=ended.find,
        loop=loop,
        clock=clock,
        ledger=ledger,
        companions=all_of(ledger, keeper, request_log),
    )
    if request_log is not None:
        member.gateway.on_refused = request_log.refused
    doorman = None if keeper is None else keeper.authenticator
    edge = data_plane(member.gateway, config, loop, clock, doorman, member.not_ready)
    return Process(
        member, config, metrics, aside=redis.bus.aside, edge=edge, letters=member.dead_letters, ledger=ledger
    )
