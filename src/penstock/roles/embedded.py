"""Puts `penstock serve` together: gateway, batchers and slots in one process, with nothing else installed.
`roles/serve.py` calls it once, and then starts what was put together."""

import asyncio
import time

from penstock.adapters.api_keys.file import KeysFile
from penstock.adapters.memory import MemoryResultBus
from penstock.config import Config
from penstock.core.ratelimit import RateLimiter
from penstock.doors.large import LargeBodies
from penstock.errors import BackendError
from penstock.from_config.sharing import memory_of
from penstock.from_config.tiers import changed_limits, limits_by_rank, tenants, tier_names
from penstock.ports import Clock
from penstock.roles.auth import doorkeeper
from penstock.roles.data_plane import data_plane
from penstock.roles.grpc import grpc_plane
from penstock.roles.jobs import jobs_of
from penstock.roles.model import ModelStack
from penstock.roles.observers import Observing
from penstock.roles.process import Process
from penstock.roles.reload import reloader as reloader_of
from penstock.roles.role import Role
from penstock.roles.tracing import tracer_of
from penstock.roles.webhooks import webhooks_of
from penstock.runtime.dead_letters import DeadLetters
from penstock.runtime.embedded_server import EmbeddedServer
from penstock.runtime.gateway import Gateway
from penstock.runtime.idempotency import KeyedStore
from penstock.runtime.ids import random_ids
from penstock.runtime.tasks import TaskStore
from penstock.runtime.wheel import Wheel
from penstock.server.certificates import server_tls
from penstock.server.live_settings import LiveSettings, Read
from penstock.types import WorkerId


def embedded(
    config: Config,
    loop: asyncio.AbstractEventLoop,
    clock: Clock = time.monotonic,
    *,
    reload: bool = False,
    read_again: Read | None = None,
) -> Process:
    """Returns the process. `reload`: whether functions whose files change are started anew. `read_again`: reads the
    configuration again, for SIGHUP."""

    def follow(before: Config, now: Config) -> None:
        """Go by another configuration from now on. Requests that wait keep the time limits that they came with."""
        for name, stack in stacks.items():
            desks[name] = stack.follow(now)
        limiter.hold_to(changed_limits(before, now))
        gateway.follow(tenants(now), limits_by_rank(now))
        gateway.desks_changed()
        letters.longest = now.timeouts_of(None).max_client
        if keeper is not None:
            keeper.authenticator.find_out_again()

    def worker_started(model: str, worker: WorkerId, error: BackendError | None) -> None:
        server.worker_started(model, worker, error)

    limits, share, limiter = config.limits, config.limits.tenant_share, RateLimiter()
    bus, observing = MemoryResultBus(), Observing(config, loop, clock, config.models, Role.SERVE)
    keeper = doorkeeper(config, KeysFile)
    stacks = {
        name: ModelStack(name, config, bus, observing.told, loop, clock, worker_started)
        for name in config.models
    }
    wheel, memory, tiers = Wheel(loop, clock), memory_of(config), tier_names(config)
    desks = {name: stack.desk for name, stack in stacks.items()}
    tasks = TaskStore(
        wheel, clock, time.time, max_tasks=limits.max_tasks, max_bytes=limits.max_task_bytes,
        ttl=limits.result_ttl, share=share,
    )  # fmt: skip
    keys = config.idempotency
    keyed = KeyedStore(
        clock, time.time, max_keys=keys.max_keys, max_bytes=keys.max_bytes, ttl=keys.ttl, share=share
    )
    gateway = Gateway(
        desks,
        tenants(config),
        tasks,
        wheel,
        observing.told,
        clock,
        random_ids(),
        limiter,
        limits_by_rank(config),
        keyed,
        memory,
    )
    letters = DeadLetters(
        gateway, tasks, config.models, tiers, clock, time.time, attempts=config.retries.attempts,
        longest=config.timeouts_of(None).max_client, max_letters=config.redis.max_dead_letters,
        max_bytes=limits.max_dead_letter_bytes, share=share, ttl=limits.dead_letter_ttl,
    )  # fmt: skip
    observing.told.add(letters)
    reloader = reloader_of(stacks.values()) if reload else None
    webhooks, jobs = webhooks_of(config), jobs_of(config, gateway.slack, clock)
    if jobs is not None:
        observing.told.add(jobs.runner)
    companions = [each for each in (reloader, keeper, webhooks, jobs) if each is not None]
    server = EmbeddedServer(
        {name: stack.served for name, stack in stacks.items()},
        {name for name, model in config.models.items() if model.is_function},
        desks,
        gateway,
        tasks,
        keyed,
        letters,
        memory,
        wheel,
        tiers,
        observing.told,
        observing.ended,
        loop,
        clock,
        companions,
    )
    bus.subscribe(gateway.settle)
    doorman = None if keeper is None else keeper.authenticator
    tls = server_tls(config)
    tracer = tracer_of(observing.tracing)
    large = LargeBodies(clock)
    edge = data_plane(
        gateway, config, loop, clock, doorman, server.not_ready, tls, tracer, webhooks, large, jobs
    )
    grpc = grpc_plane(gateway, config, edge, loop, clock, doorman, server.not_ready, tls, tracer, large)
    settings = LiveSettings(config, read_again, follow)
    return Process(server, settings, observing, edge=edge, grpc=grpc, tls=tls, letters=letters)
