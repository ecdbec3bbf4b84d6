"""A Redis that answers and then is silent for a while keeps nobody from starting, as one that is not there yet."""

import asyncio
from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any

import pytest
from redis.exceptions import TimeoutError as Silence

from penstock.adapters.redis.bus import mailbox, registry
from penstock.adapters.redis.bus.bus import RedisBus
from penstock.cluster.member import Member
from penstock.config import Config, Model, Redis
from penstock.roles.batcher import batcher
from penstock.roles.process import Process
from penstock.roles.worker import worker
from redis_servers import VALKEY, becomes


def silent_once(ask: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """The first call gets no answer."""
    silent = True

    async def asked(*words: Any) -> Any:
        nonlocal silent
        if silent:
            silent = False
            raise Silence("Timeout reading from redis")
        return await ask(*words)

    return asked


async def starts(member: Process) -> None:
    member.start()
    try:
        await becomes(member.started.done)
        member.started.result()
    finally:
        await member.stop()


@pytest.mark.parametrize(("module", "script"), [(mailbox, "BOX_CREATE"), (registry, "BEAT")])
def test_a_redis_that_falls_silent_while_a_process_starts_is_waited_for(
    module: ModuleType, script: str, redis_urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body() -> None:
        config = Config(redis=Redis(url=redis_urls[VALKEY], namespace=f"slow-{script}"))
        monkeypatch.setattr(module, script, silent_once(getattr(module, script)))
        await starts(batcher(config, asyncio.get_running_loop()))

    asyncio.run(body())


def test_a_model_that_could_not_be_announced_is_announced_with_a_heartbeat(
    redis_urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body() -> None:
        models = {"sim": Model(target="sim:1ms")}
        config = Config(redis=Redis(url=redis_urls[VALKEY], namespace="slow-model"), models=models)
        process = worker(config, asyncio.get_running_loop())
        member = process.inside
        assert isinstance(member, Member)
        bus = member.bus
        assert isinstance(bus, RedisBus)
        execute, silent = bus.store.commands.execute_command, True

        async def asked(*words: Any, **more: Any) -> Any:
            nonlocal silent
            if silent and words[0] == "HSET":
                silent = False
                raise Silence("Timeout reading from redis")
            return await execute(*words, **more)

        monkeypatch.setattr(bus.store.commands, "execute_command", asked)
        process.start()
        try:
            await becomes(process.started.done)
            await becomes(lambda: "sim" in member.registry.models)
        finally:
            await process.stop()
        assert not silent

    asyncio.run(body())
