"""A Redis that answers and then is silent for a while keeps nobody from starting, as one that is not there yet."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.exceptions import TimeoutError as Silence

from penstock.cluster.member import Member
from penstock.config import Config, Model, Redis
from penstock.roles.batcher import BatcherRole
from penstock.roles.worker import WorkerRole
from redis_servers import VALKEY, becomes


def silent_once(ask: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    """The first call gets no answer."""
    silent = True

    async def asked(*words: Any) -> None:
        nonlocal silent
        if silent:
            silent = False
            raise Silence("Timeout reading from redis")
        await ask(*words)

    return asked


async def starts(member: Member) -> None:
    member.start()
    try:
        await becomes(member.started.done)
        member.started.result()
    finally:
        await member.stop()


@pytest.mark.parametrize("silent", ["mailbox", "registry"])
def test_a_redis_that_falls_silent_while_a_process_starts_is_waited_for(
    silent: str, redis_urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body() -> None:
        config = Config(redis=Redis(url=redis_urls[VALKEY], namespace=f"slow-{silent}"))
        batcher = BatcherRole(config, asyncio.get_running_loop())
        what, name = {"mailbox": (batcher.mailbox, "create"), "registry": (batcher.registry, "beat")}[silent]
        monkeypatch.setattr(what, name, silent_once(getattr(what, name)))
        await starts(batcher)

    asyncio.run(body())


def test_a_model_that_could_not_be_announced_is_announced_with_a_heartbeat(
    redis_urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body() -> None:
        models = {"sim": Model(target="sim:1ms")}
        config = Config(redis=Redis(url=redis_urls[VALKEY], namespace="slow-model"), models=models)
        worker = WorkerRole(config, asyncio.get_running_loop())
        execute, silent = worker.store.commands.execute_command, True

        async def asked(*words: Any, **more: Any) -> Any:
            nonlocal silent
            if silent and words[0] == "HSET":
                silent = False
                raise Silence("Timeout reading from redis")
            return await execute(*words, **more)

        monkeypatch.setattr(worker.store.commands, "execute_command", asked)
        worker.start()
        try:
            await becomes(worker.started.done)
            await becomes(lambda: "sim" in worker.registry.models)
        finally:
            await worker.stop()
        assert not silent

    asyncio.run(body())
