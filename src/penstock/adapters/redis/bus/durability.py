"""Writes envelopes (messages with requests) so that they are as safe as `redis.durability` asks. The gateway's
publisher hands it each envelope. A request counts as accepted when

    memory    Redis has it.
    fsync     Redis has it on its disk: WAITAOF, or nothing more where every write is synced before its answer.
    replica   so many replicas have it in memory: WAIT.

WAIT and WAITAOF speak of the writes of their own connection, so they follow them there, in the same round trip. If
too few replicas have it in time, the request is refused, though a batcher may carry it out all the same.
"""

from collections.abc import Sequence
from typing import Any

from redis.asyncio.cluster import PipelineCommand, RedisCluster
from redis.exceptions import AskError

from penstock.adapters.redis.link.connect import Store
from penstock.errors import StoreDown

FIELD = "e"  # the field of a stream entry that holds the message


class Appender:
    """Adds entries to a stream, and returns when they are as safe as the settings ask."""

    def __init__(self, store: Store, seconds: float = 2.0) -> None:
        """`seconds`: how long disk or replicas may take. A server that syncs once a second needs more than one
        second."""
        self._store = store
        settings, features = store.settings, store.features
        # No longer than the time-out of a blocking client allows.
        seconds = min(seconds, settings.block + settings.timeout)
        self._needed = 1  # how many servers must have an entry
        self._wait: tuple[str | int, ...] | None = None  # the command that waits for them, if one is needed
        if settings.durability == "replica":
            self._needed = max(1, settings.replicas)
            self._wait = ("WAIT", self._needed, round(seconds * 1e3))
        elif settings.durability == "fsync" and features.appendfsync != "always":
            self._wait = ("WAITAOF", 1, 0, round(seconds * 1e3))
        # WAIT and WAITAOF block, so they need a client of their own: other commands must not wait behind them.
        self._client = store.commands if self._wait is None else store.blocking()

    @property
    def waits(self) -> bool:
        """Whether an acknowledgement takes longer than the writing."""
        return self._wait is not None

    async def append(self, key: str, bodies: Sequence[bytes]) -> None:
        """Add these entries. Raises redis-py's errors, or StoreDown when too few replicas had them in time. After
        an error, the entries may be there or not."""
        commands: list[tuple[Any, ...]] = [("XADD", key, "*", FIELD, body) for body in bodies]
        if self._wait is None and len(commands) == 1:
            await self._client.execute_command(*commands[0])
            return
        if self._wait is not None:
            commands.append(self._wait)
        answers = await self._together(key, commands)
        waited = answers.pop() if self._wait is not None else self._needed
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        had = waited[0] if isinstance(waited, list) else waited
        # An error here means that Redis' log was switched off meanwhile.
        if isinstance(had, Exception) or had < self._needed:
            raise StoreDown("Redis could not make it safe in time.", retry_after=1.0, details=str(had))

    async def _together(self, key: str, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        client = self._client
        if self._wait is None:
            return await self._store.each(commands)
        if isinstance(client, RedisCluster):
            return await _on_one_node(client, key, commands)
        pipeline = client.pipeline(transaction=False)
        for command in commands:
            pipeline.execute_command(*command)
        return list(await pipeline.execute(raise_on_error=False))


async def _on_one_node(client: RedisCluster, key: str, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Send the commands in one pipeline to the node of the key. redis-py's cluster pipeline would send WAIT, which
    has no key, to any node."""
    await client.initialize()
    node = client.get_node_from_key(key)
    assert node is not None
    sent = [PipelineCommand(number, *command) for number, command in enumerate(commands)]
    try:
        await node.execute_pipeline(sent)
    except Exception:
        await client.aclose()  # redis-py looks for the node anew next time
        raise
    answers = [command.result for command in sent]
    if isinstance(answers[0], AskError):  # an AskError or a MovedError, which is a kind of it
        await client.aclose()
        raise StoreDown("The shard is moving to another node.", retry_after=1.0) from answers[0]
    return answers
