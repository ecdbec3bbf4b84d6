"""A whole installation for fault tests: gateways, batchers and workers, each a process, over a real Redis.

with installation(tmp_path, gateways=2, batchers=2, workers=3, slots=2, long=chaos_long) as site:
    site.workers[0].kill()
    site.workers[0].restart()
    site.check(history)
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from redis.cluster import RedisCluster

from history import GRACE, NOISE, History, Journal
from redis_servers import VALKEY, Cluster, Server, redis_cluster, redis_server
from scene import FUNCTION, LEAK, Holdings, write_delay
from server import CHANGING, PENSTOCK, Answer, call

ROLES = ("gateway", "batcher", "worker")
NAMESPACE, GROUP = "penstock", "batchers"
SPARE = 8  # connections to Redis that a busy process keeps, besides those it needs at rest
NOISY_SPARE = 48  # after a standstill, when all that was due meanwhile comes at once
CLUSTER_SPARE = 20  # in a cluster, where a batcher reads each shard that it takes over by itself
EXITS_WITHIN = 60.0


class Member:
    """One process of an installation. Its ports are new with each start: nobody finds another behind an old one."""

    def __init__(
        self, role: str, number: int, folder: Path, command: Sequence[str], environment: Mapping[str, str]
    ):
        self.role = role
        self.name = f"{role} {number}"
        self.command = command
        self.environment = environment
        self._log = folder / f"{role}{number}.log"
        self.folder = folder
        self.url = ""  # of a gateway's data plane
        self.admin_url = ""
        self.at_rest: Holdings | None = None  # None: it was not there when the scene began
        self.process: subprocess.Popen[str]
        self._ended = True  # as the test wanted it

    def launch(self) -> None:
        """Starts the process; `wait` says when it is of use."""
        self._ended = False
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, cwd=self.folder, env=dict(self.environment), text=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip

    def wait(self) -> None:
        """Until it has said where it listens, which it does when it is of use."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            words = line.split()
            if "admin" in words:
                # This one first: who finds the new admin plane takes clients to the address beside it.
                if "serving" in words:
                    self.url = words[words.index("serving") + 1].removesuffix("/v1/inference")
                self.admin_url = words[words.index("admin") + 1].removesuffix("/internal/health")
                return
        raise AssertionError(f"{self.name} ended with code {self.process.wait()}:\n{self.log()}")

    def kill(self) -> None:
        """kill -9, as a crash would."""
        self.process.kill()
        self._reap()

    def stop(self) -> int:
        """SIGTERM; its exit code once it is gone."""
        self.process.send_signal(signal.SIGTERM)
        return self._reap()

    def restart(self) -> None:
        """Anew, after `kill` or `stop`; returns when it is of use."""
        assert not self.alive
        self.at_rest = None
        self.launch()
        self.wait()

    def _reap(self) -> int:
        code = self.process.wait(EXITS_WITHIN)
        self._ended = True
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def end(self) -> None:
        """Whatever it does, and whether or not it was ever started."""
        if hasattr(self, "process"):
            self.kill()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def gave_up(self) -> bool:
        """It has ended, and nobody had told it to."""
        return not self._ended and not self.alive

    @property
    def pid(self) -> int:
        return self.process.pid

    def children(self) -> set[int]:
        """Of a worker: the processes that run the user's code."""
        return {child.pid for child in psutil.Process(self.pid).children(recursive=True)}

    def admin(self, path: str, method: str = "GET") -> Answer:
        return call(self.admin_url, method, path, headers=CHANGING)

    def health(self) -> dict[str, Any]:
        said: dict[str, Any] = self.admin("/internal/health").json()
        return said

    def ready(self) -> bool:
        try:
            return self.admin("/readyz").status == 200
        except OSError:
            return False

    def log(self) -> str:
        """Everything that it and those before it have logged."""
        return self._log.read_text()

    def hold(self) -> Holdings:
        process = psutil.Process(self.pid)
        return Holdings(process.num_fds(), process.memory_info().rss)


@dataclass(slots=True)
class Installation:
    redis: Server | Cluster
    journal: Journal
    delay: Path
    long: bool
    gateways: list[Member] = field(default_factory=list)
    batchers: list[Member] = field(default_factory=list)
    workers: list[Member] = field(default_factory=list)
    client: Any = field(init=False)  # a plain Redis or cluster client, for looking

    @property
    def members(self) -> list[Member]:
        return [*self.gateways, *self.batchers, *self.workers]

    @property
    def alive(self) -> list[Member]:
        return [member for member in self.members if member.alive]

    @property
    def url(self) -> str:
        return self.gateways[0].url

    @property
    def grace(self) -> float:
        return GRACE if self.long else NOISE

    def set_delay(self, seconds: float) -> None:
        """How long a batch takes from now on."""
        write_delay(self.delay, seconds)

    def key(self, tag: str, rest: str = "") -> str:
        return f"{{{NAMESPACE}:{tag}}}{rest}"

    def wait_until_known(self) -> None:
        """Until every gateway and batcher sees everyone who is alive, and the shards have owners."""
        slots = sum(len(worker.admin("/internal/workers").json()) for worker in self.workers if worker.alive)
        gateways, batchers = (
            {each.pid for each in those if each.alive} for those in (self.gateways, self.batchers)
        )

        def known() -> bool:
            said = [member.health() for member in self.alive if member.role != "worker"]
            healthy = [sum(model["workers_healthy"] for model in each["models"].values()) for each in said]
            owned = sorted(shard for each in said for shard in each.get("shards", ()))
            return (
                set(healthy) == {slots}
                and {(each["gateways"], each["batchers"]) for each in said}
                == {(len(gateways), len(batchers))}
                and owned == list(range(16))
                and all(each["shards"] for each in said if "shards" in each)
            )

        patiently(known)
        patiently(lambda: all(member.ready() for member in self.alive))

    def check(self, *histories: History) -> None:
        """What holds in every row: of the history, and of an installation whose clients have all gone."""
        for history in histories:
            history.check(self.grace)
        for member in self.members:
            assert not member.gave_up, (
                f"{member.name} ended with code {member.process.poll()}:\n{member.log()}"
            )
        self.wait_until_quiet()
        for member in self.alive:
            assert member.admin("/livez").status == 200, f"{member.name}: {member.admin('/livez').body!r}"
            if self.long and member.at_rest is not None:
                grown = member.hold().memory / member.at_rest.memory
                assert grown <= LEAK, f"the memory of {member.name} has grown to {grown:.1%}"

    def wait_until_quiet(self) -> None:
        try:
            patiently(lambda: not self.remains())
        except AssertionError:
            raise AssertionError(f"left over: {self.remains()}") from None

    def remains(self) -> list[str]:
        """What is not as it was before the load: in the streams of Redis, and in each process."""
        found = []
        spare = CLUSTER_SPARE if isinstance(self.redis, Cluster) else SPARE if self.long else NOISY_SPARE
        for shard in range(16):
            stream = self.key(f"s{shard}", ":requests")
            if entries := self.client.xlen(stream):
                found.append(f"{entries} entries in {stream}")
            if self.client.exists(stream) and (pending := self.client.xpending(stream, GROUP)["pending"]):
                found.append(f"{pending} pending in {stream}")
        for member in self.alive:
            said = member.health()
            held = {what: said.get(what) for what in ("waiting_clients", "in_hand", "queue_depth")}
            found += [f"{member.name}: {what} {number}" for what, number in held.items() if number]
            box = self.key(f"box:{said['name']}")
            if (letters := self.client.xlen(box)) > 1:  # the one that made it, or the last one handled
                found.append(f"{letters} messages in {box}")
            if member.at_rest and member.hold().descriptors > member.at_rest.descriptors + spare:
                found.append(f"{member.name}: {member.hold().descriptors} descriptors")
        return found

    def settle(self) -> None:
        """Compare with what each process holds now: one that has met a load for the first time holds more."""
        self.wait_until_quiet()
        for member in self.alive:
            member.at_rest = member.hold()

    def at_work(self) -> list[Member]:
        """Workers in the middle of a batch."""
        busy = {execution.pid for execution in self.journal.executions() if execution.ended is None}
        return [worker for worker in self.workers if worker.alive and worker.children() & busy]

    def dead_letters(self) -> list[dict[str, Any]]:
        gateway = next(member for member in self.gateways if member.alive)
        letters: list[dict[str, Any]] = gateway.admin("/internal/dlq?limit=1000").json()
        return letters

    def add_like(self, other: Member, number: int, redis_url: str) -> Member:
        """One more of the same role, which finds Redis elsewhere; returns when it is of use."""
        command = [redis_url if word == self.redis.url else word for word in other.command]
        member = Member(other.role, number, other.folder, command, other.environment)
        {"gateway": self.gateways, "batcher": self.batchers, "worker": self.workers}[other.role].append(
            member
        )
        member.launch()
        member.wait()
        self.wait_until_known()
        member.at_rest = member.hold()
        return member


@contextmanager
def installation(
    folder: Path,
    *,
    gateways: int = 2,
    batchers: int = 2,
    workers: int = 3,
    slots: int = 2,
    long: bool = False,
    max_batch: int = 8,
    delay: float = 0.0,
    kind: str = VALKEY,
    cluster: bool = False,
    redis_options: Sequence[str] = (),
    redis: Server | Cluster | None = None,
    urls: Mapping[str, str] | None = None,
    prefix: Mapping[str, Sequence[str]] | None = None,
    config: str = "",
    target: str = FUNCTION,
    worker_options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Iterator[Installation]:
    """`config`: the text of the penstock.toml of all. `redis`: a server or cluster that runs already.
    `urls`: where processes of a role find Redis, if not directly. `prefix`: what their commands begin with.
    `environment`: more variables of all processes."""
    (folder / "penstock.toml").write_text(config)
    journal, wait = Journal(folder / "journal"), folder / "delay"
    write_delay(wait, delay)
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    chaos = {"CHAOS_JOURNAL": str(journal.path), "CHAOS_DELAY": str(wait)}
    known = {**variables, **chaos, **(environment or {})}
    options = {
        "gateway": ("--port", "0"),
        "batcher": (),
        "worker": (target, "--slots", str(slots), "--max-batch", str(max_batch), *worker_options),
    }
    with ExitStack() as stack:
        server = redis or stack.enter_context(_server(kind, cluster, redis_options))
        site = Installation(server, journal, wait, long)
        site.client = stack.enter_context(_client(server))

        def member(role: str, number: int) -> Member:
            command = [
                *(prefix or {}).get(role, ()), str(PENSTOCK), role, *options[role],
                "--redis", (urls or {}).get(role, server.url), "--admin-port", "0",
            ]  # fmt: skip
            return Member(role, number, folder, command, known)

        site.gateways += [member("gateway", number) for number in range(gateways)]
        site.batchers += [member("batcher", number) for number in range(batchers)]
        site.workers += [member("worker", number) for number in range(workers)]
        stack.callback(_end, site)
        for each in site.members:
            each.launch()
        for each in site.members:
            each.wait()
        site.wait_until_known()
        for each in site.members:
            each.at_rest = each.hold()
        yield site


def _server(kind: str, cluster: bool, options: Sequence[str]) -> AbstractContextManager[Server | Cluster]:
    return redis_cluster(kind, *options) if cluster else redis_server(kind, *options)


def _client(redis: Server | Cluster) -> Any:
    if isinstance(redis, Cluster):
        return RedisCluster(host="127.0.0.1", port=redis.servers[0].port)
    return redis.client()


def _end(site: Installation) -> None:
    """Kills whoever is left; that they stop well is a test of its own."""
    for member in site.members:
        member.end()


def signal_all(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        os.kill(pid, number)


def patiently(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    """Until it holds, without asking so often that a small machine does nothing else."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to hold in time"
        time.sleep(0.1)
