"""Puts `penstock gateway` together, which takes requests over HTTP and gRPC and hands them to the batchers through
Redis. `cli/roles.py` hands it to `server/life.py`, which calls it once and starts what was put together."""

import asyncio
import time

from penstock.adapters.redis.records.api_keys import RedisKeys
from penstock.cluster.gateway import GatewayMember
from penstock.config import Config
from penstock.doors.large import LargeBodies
from penstock.ports import Clock
from penstock.roles.auth import doorkeeper
from penstock.roles.data_plane import data_plane
from penstock.roles.grpc import grpc_plane
from penstock.roles.jobs import jobs_of
from penstock.roles.observers import Observing
from penstock.roles.process import Process
from penstock.roles.redis import Redis
from penstock.roles.role import Role
from penstock.roles.tracing import tracer_of
from penstock.roles.webhooks import webhooks_of
from penstock.server.certificates import server_tls
from penstock.server.live_settings import LiveSettings, Read


def gateway(
    config: Config,
    loop: asyncio.AbstractEventLoop,
    clock: Clock = time.monotonic,
    *,
    read_again: Read | None = None,
) -> Process:
    """Returns the process. `read_again`: reads the configuration again, for SIGHUP."""
    redis, observing = Redis(config), Observing(config, loop, clock, (), Role.GATEWAY)
    keeper = doorkeeper(config, lambda file: RedisKeys(redis.store))
    webhooks = webhooks_of(config)
    jobs = jobs_of(config, lambda model: member.gateway.slack(model), clock)
    if jobs is not None:
        observing.told.add(jobs.runner)
    member = GatewayMember(
        config,
        redis.bus,
        redis.shards,
        redis.records,
        observer=observing.told,
        on_model=observing.metrics.add_model,
        remembered=observing.ended,
        loop=loop,
        clock=clock,
        wall_clock=time.time,
        ledger=observing.ledger,
        companions=[each for each in (keeper, webhooks, jobs) if each is not None],
    )
    doorman = None if keeper is None else keeper.authenticator
    tls = server_tls(config)
    tracer = tracer_of(observing.tracing)
    gateway, not_ready, large = member.gateway, member.not_ready, LargeBodies(clock)
    edge = data_plane(gateway, config, loop, clock, doorman, not_ready, tls, tracer, webhooks, large, jobs)
    grpc = grpc_plane(gateway, config, edge, loop, clock, doorman, not_ready, tls, tracer, large)

    def follow(before: Config, now: Config) -> None:
        member.follow(before, now)
        if keeper is not None:
            keeper.authenticator.find_out_again()

    settings = LiveSettings(config, read_again, follow)
    return Process(
        member,
        settings,
        observing,
        edge=edge,
        grpc=grpc,
        tls=tls,
        letters=member.dead_letters,
        aside=redis.bus.aside,
    )
