"""redis-py's connections and clients, mended in three places. All connections are made of these (`connect.py`).

Writing: redis-py goes through `asyncio.wait_for`, which on Python 3.11 makes a task for each command and
swallows a cancellation that comes as the write ends: a reader's loop that is told to stop would then run on.

Hash slots that move between the nodes of a cluster: redis-py sends ASKING and then the command, each over the
connection that was idle longest. With several idle connections the two take different ones, and the node refuses
the command. After some rounds redis-py closes everybody's connections. If each takes the connection that was used
last, both take the same.

Keys of the wrong type: see `misfits.py`.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any

from redis import exceptions as redis_errors
from redis.asyncio import Connection, Redis, SSLConnection
from redis.asyncio.cluster import RedisCluster

from penstock.adapters.redis.link.misfits import Misfits


class _PlainConnection(Connection):
    """A connection that writes without `wait_for`."""

    async def send_packed_command(
        self, command: bytes | str | Iterable[bytes], check_health: bool = True
    ) -> None:
        if not self.is_connected:
            await self.connect_check_health(check_health=False)
        try:
            async with asyncio.timeout(self.socket_timeout):
                await self._send_packed_command(_pieces(command))
        except TimeoutError:
            await self.disconnect(nowait=True)
            raise redis_errors.TimeoutError("Redis took no more data in time") from None
        except (OSError, RuntimeError) as error:  # uvloop raises RuntimeError if the transport has closed
            await self.disconnect(nowait=True)
            raise redis_errors.ConnectionError(f"Redis took no more data: {error}") from error
        except BaseException:
            await self.disconnect(nowait=True)  # a command may be half sent
            raise


class _EncryptedConnection(_PlainConnection, SSLConnection):
    """A connection over TLS. It reads the certificate files whenever it connects, because certificates are renewed;
    redis-py reads them once."""

    async def _connect(self) -> None:
        self.ssl_context.context = None
        await super()._connect()  # type: ignore[no-untyped-call]  # of redis-py, without types


class _LastUsedFirst(deque[Connection]):
    """A node's idle connections. The one that was used last is on the left, where redis-py takes the next."""

    def append(self, connection: Connection) -> None:
        self.appendleft(connection)


class SingleServer(Redis):
    """The client of a single server."""

    misfits: Misfits

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        return await self.misfits.without(super().execute_command, args, options)


class Cluster(RedisCluster):
    """The client of a cluster."""

    misfits: Misfits

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        return await self.misfits.without(super().execute_command, args, options)

    async def initialize(
        self,
        additional_startup_nodes_info: list[tuple[str, int]] | None = None,
        last_failed_node_name: str | None = None,
    ) -> RedisCluster:
        await super().initialize(additional_startup_nodes_info, last_failed_node_name)
        for node in self.get_nodes():
            if not isinstance(node._free, _LastUsedFirst):
                node._free = _LastUsedFirst(node._free, node.max_connections)
        return self

    async def aclose(self) -> None:
        """Close all connections. Once redis-py has lost one, it means to read the cluster's map again, and until
        then its own `aclose` closes nothing: the garbage collector would find the other connections open."""
        await super().aclose()
        await self.nodes_manager.aclose()
        await self.nodes_manager.aclose("startup_nodes")


def write_directly(client: Redis | RedisCluster) -> None:
    """Make this client write without `wait_for`. Must be called before its first command."""
    if isinstance(client, Redis):
        client.connection_pool.connection_class = _ours(client.connection_pool.connection_class)
        return
    kinds = client.nodes_manager.connection_kwargs  # these options are for nodes that are found later
    kinds["connection_class"] = _ours(kinds["connection_class"])
    for node in client.startup_nodes:
        node.connection_class = _ours(node.connection_class)


def _ours(kind: type[object]) -> type[Connection]:
    return _EncryptedConnection if issubclass(kind, SSLConnection) else _PlainConnection


def _pieces(command: bytes | str | Iterable[bytes]) -> Iterable[bytes]:
    if isinstance(command, str):
        command = command.encode()
    return [command] if isinstance(command, bytes) else command
