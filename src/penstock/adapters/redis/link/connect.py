"""The connections of one process to Redis. `roles/redis.py` makes a `Store` for a member, `roles/key_store.py` one
for `penstock keys`, and `redis/bus/obituary.py` one for each death. Every file of `redis/bus` and `redis/records`
speaks to Redis through it.

Short commands share a pool, and each blocking reader has a client of its own, so that no command waits behind a
BLOCK. Nothing is retried here, because only the caller knows whether asking twice is safe. If a call is cancelled,
redis-py closes its connection, so that the next caller cannot get its answer. We speak RESP2: its answers have the
same form on every server, and a new connection needs no greeting.
"""

import asyncio
import re
from collections.abc import Coroutine, Sequence
from typing import Any, TypeAlias, TypeVar

from redis import exceptions as redis_errors
from redis.asyncio import Redis
from redis.asyncio.cluster import ClusterNode, RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from penstock.adapters.redis.link.address import Address, parse_address
from penstock.adapters.redis.link.aside import Aside
from penstock.adapters.redis.link.connection import Cluster, SingleServer, write_directly
from penstock.adapters.redis.link.features import (
    Features,
    check_durability,
    maxmemory,
    memory_ratio,
    read_features,
)
from penstock.adapters.redis.link.hearing import Link
from penstock.adapters.redis.link.misfits import Misfits, is_misfit
from penstock.adapters.redis.link.names import Keys
from penstock.adapters.redis.link.outage import Patience, guard, is_outage, translate
from penstock.adapters.redis.link.settings import RedisSettings
from penstock.errors import PenstockError, StoreDown, UserMistake

__all__ = [
    "Client", "Command", "Features", "Patience", "RedisSettings", "Store", "check_durability", "guard", "is_outage",
    "translate",
]  # fmt: skip

Client: TypeAlias = Redis | RedisCluster
Command: TypeAlias = tuple[str | bytes | int | float, ...]
T = TypeVar("T")


class Store:
    """A process's one way to Redis. It can be used after `open`."""

    def __init__(self, settings: RedisSettings) -> None:
        if not settings.namespace or {*"{}"} & {*settings.namespace}:
            raise UserMistake("The Redis namespace is a name without braces, like penstock.")
        self.settings = settings
        self._address = parse_address(settings.url)
        self.clustered = self._address.clustered
        self.keys = Keys(settings.namespace, clustered=self.clustered)
        self.maxmemory = 0  # bytes that each primary may use, when it was last asked; 0: no limit
        self.misfits = Misfits(self.keys)
        self.aside = Aside(self)
        self.commands: Client = self._client(settings.timeout)
        self.link = Link(settings.timeout)
        self._blocking: list[Client] = []  # the clients of readers that block
        self._errands: set[asyncio.Task[Any]] = set()  # see `send`
        self._features: Features | None = None  # None until the store is open

    @property
    def features(self) -> Features:
        """What the server can do. Raises RuntimeError if the store is not open."""
        if self._features is None:
            raise RuntimeError("The store is not open.")
        return self._features

    @property
    def where(self) -> str:
        """The address as a log may show it, without the password."""
        return self._address.shown

    async def open(self) -> None:
        """Connect and read what the server can do. Raises UserMistake for what the operator can put right,
        StoreDown when Redis does not answer."""
        try:
            infos = await self.infos()
            policies = [await self._appendfsync(node) for node in self._primaries()]
        except Exception as error:
            await self.close()
            raise _explained(error, self._address) from error
        if not self.clustered and int(infos[0].get("cluster_enabled", 0)):
            await self.close()
            raise UserMistake(f"{self.where} is a node of a cluster: start its URL with redis+cluster://.")
        self._features = read_features(infos, policies)
        self.maxmemory = self._features.maxmemory

    def blocking(self) -> Client:
        """Returns a client for one reader that blocks up to `settings.block`. It is closed together with the
        store."""
        settings = self.settings
        client = self._client(settings.block + 2 * settings.timeout)
        self._blocking.append(client)
        return client

    def _client(self, timeout: float) -> Client:
        return _client(self._address, timeout, self.settings.timeout, self.misfits)

    def send(self, errand: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Run an errand in a task of its own, so that cancelling the caller does not cancel it. It ends with the
        store, whose connections it uses."""
        task = asyncio.create_task(errand)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)
        return task

    async def at(self, client: Client, key: str) -> dict[str, Any]:
        """Returns the option that names the node of a key, for commands whose keys are no fixed argument (XREAD,
        XREADGROUP). Without it, redis-py asks a cluster for the keys: one more round trip for each read."""
        if not isinstance(client, RedisCluster):
            return {}
        await client.initialize()
        return {"target_nodes": client.get_node_from_key(key)}

    async def each(self, commands: Sequence[Command]) -> list[Any]:
        """Returns the answer to each command, or the error that it met. All commands go in one round trip, or side
        by side in a cluster. redis-py's cluster pipeline is not used: it goes on asking a primary that is lost, and
        one node's failure hides the answers of the others."""
        client = self.commands
        if isinstance(client, RedisCluster) and len(commands) > 1:
            tries = (client.execute_command(*command) for command in commands)
            return await asyncio.gather(*tries, return_exceptions=True)
        try:
            if len(commands) == 1:
                return [await client.execute_command(*commands[0])]
            pipeline = client.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command)
            answers = list(await pipeline.execute(raise_on_error=False))
        except Exception as error:
            return [error] * len(commands)
        for index, answer in enumerate(answers):
            if isinstance(answer, Exception) and is_misfit(answer):
                answers[index] = await self._alone(commands[index])
        return answers

    async def _alone(self, command: Command) -> Any:
        """Returns the answer to one command, or the error that it met."""
        try:
            return await self.commands.execute_command(*command)
        except Exception as error:
            return error

    async def infos(self) -> list[dict[str, Any]]:
        """Returns the INFO of each primary."""
        answers = await self._ask_all("INFO")
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return answers

    async def memory_ratio(self) -> float:
        """Returns the part of its memory, 0 to 1, that the fullest primary uses. Primaries that do not answer are
        left out."""
        answers = await self._ask_all("INFO", "memory")
        infos = [answer for answer in answers if not isinstance(answer, BaseException)]
        if not infos:
            raise answers[0]
        self.maxmemory = maxmemory(infos)
        return max(memory_ratio(info) for info in infos)

    async def close(self) -> None:
        """Cancel all errands and close all connections."""
        for errand in self._errands:
            errand.cancel()
        await asyncio.gather(*self._errands, return_exceptions=True)
        for client in (*self._blocking, self.commands):
            await client.aclose()
        self._blocking.clear()

    def _primaries(self) -> list[ClusterNode | None]:
        return [*self.commands.get_primaries()] if isinstance(self.commands, RedisCluster) else [None]

    async def _ask_all(self, *command: str) -> list[Any]:
        """Returns the answer of each primary, or the error that it met."""
        if isinstance(self.commands, RedisCluster):
            await self.commands.initialize()
        asked = (self._ask(node, *command) for node in self._primaries())
        return list(await asyncio.gather(*asked, return_exceptions=True))

    async def _ask(self, node: ClusterNode | None, *command: str) -> Any:
        if node is None:
            return await self.commands.execute_command(*command)
        return await self.commands.execute_command(*command, target_nodes=node)

    async def _appendfsync(self, node: ClusterNode | None) -> str | None:
        try:
            answer: dict[Any, Any] = await self._ask(node, "CONFIG GET", "appendfsync")
        except redis_errors.ResponseError:  # hosted servers and accounts with few rights do not let us ask
            return None
        return next((_text(value) for name, value in answer.items() if _text(name) == "appendfsync"), None)


def _client(address: Address, timeout: float, connect_timeout: float, misfits: Misfits) -> Client:
    options: dict[str, Any] = {
        **address.options,
        "socket_timeout": timeout,
        "socket_connect_timeout": connect_timeout,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
        "driver_info": None,
    }
    client: Cluster | SingleServer
    if address.clustered:
        nodes = [ClusterNode(host, port) for host, port in address.nodes]
        # redis-py looks up a hash slot that has moved. To read the whole map anew would close connections in use.
        client = Cluster(startup_nodes=nodes, reinitialize_steps=0, **options)
    else:
        client = SingleServer(host=address.nodes[0][0], port=address.nodes[0][1], **options)
    client.misfits = misfits
    write_directly(client)
    return client


def _explained(error: Exception, address: Address) -> Exception:
    """Returns the error of `open` in words that say what to do."""
    if isinstance(error, PenstockError):
        return error
    where, words = address.shown, str(error)
    if isinstance(error, redis_errors.AuthenticationError) or words.startswith(("NOAUTH", "WRONGPASS")):
        return UserMistake(f"{where} does not know this user or password: put them right in the Redis URL.")
    if isinstance(error, redis_errors.NoPermissionError):
        return UserMistake(f"{where} does not allow this user what Penstock needs: {words}.")
    if "CERTIFICATE_VERIFY_FAILED" in words:
        return UserMistake(
            f"The certificate of {where} cannot be trusted: name its CA with ?ssl_ca_certs=FILE."
        )
    if "Cluster mode is not enabled" in words:
        return UserMistake(f"{where} is not a cluster: start its URL with redis://.")
    if isinstance(error, redis_errors.InvalidResponse) or "Protocol error" in words:
        return UserMistake(f"What answers at {where} is not a Redis: check the host and the port.")
    if "KEY_VALUES_MISMATCH" in words:
        return UserMistake("ssl_certfile and ssl_keyfile in the Redis URL do not belong together.")
    if is_outage(error):
        # With TLS 1.3 a client learns that its certificate was refused only when it reads, if at all.
        broken_off = "ssl" in address.options and re.search("(?i)reset|alert|closed", words)
        hint = (
            " If it asks for a certificate, name one with ssl_certfile and ssl_keyfile." if broken_off else ""
        )
        return StoreDown(f"Redis at {where} cannot be reached.{hint}", retry_after=1.0, details=words)
    return error


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
