"""Puts `penstock autoscaler` together, which decides how many workers there should be. `cli/roles.py` hands it to
`server/life.py`, which calls it once and starts what was put together."""

import asyncio
import time
from pathlib import Path

from penstock.adapters.scaling.command import Command
from penstock.adapters.scaling.kubernetes import Kubernetes
from penstock.adapters.scaling.telling import Lines, OnlyTold
from penstock.cluster.autoscaler import AutoscalerMember
from penstock.config import Autoscaler, Config
from penstock.ports import Clock
from penstock.ports.scaling import Hand
from penstock.roles.observers import Observing
from penstock.roles.process import Process
from penstock.roles.redis import Redis
from penstock.roles.role import Role
from penstock.server.live_settings import LiveSettings, Read


def autoscaler(
    config: Config,
    loop: asyncio.AbstractEventLoop,
    clock: Clock = time.monotonic,
    *,
    read_again: Read | None = None,
    present: int | None = None,
) -> Process:
    """Returns the process. `read_again`: reads the configuration again, for SIGHUP. `present`: how many workers the
    supervisor has that started it; None if nobody reads what it prints."""
    hand = hand_of(config.autoscaler) if present is None else Lines(present, _print)
    redis, observing = Redis(config), Observing(config, loop, clock, (), Role.AUTOSCALER)
    member = AutoscalerMember(config, redis.bus, hand, loop, clock)
    settings = LiveSettings(config, read_again, member.follow)
    return Process(member, settings, observing, aside=redis.bus.aside, scale=member.scale)


def hand_of(settings: Autoscaler) -> Hand:
    """Returns what adds and removes workers. Raises UserMistake."""
    match settings.act:
        case "kubernetes":
            return Kubernetes(
                settings.deployment, settings.namespace, Path(settings.account), settings.timeout
            )
        case "command":
            return Command(settings.command, settings.timeout)
        case _:
            return OnlyTold()


def _print(line: str) -> None:
    print(line, flush=True)
