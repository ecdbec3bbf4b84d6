"""A whole installation for one measurement: a Valkey, gateways, batchers and workers, each a process of its own.
All benchmarks over Redis start theirs with it."""

import contextlib
import json
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.serving import DIRECT, PENSTOCK, DidNotServe, Launched, Server, launched
from benchmarks.valkey import Valkey, ValkeyCluster, valkey, valkey_cluster

READY_SECONDS = 60
SHARDS = 16
SETTINGS = {
    "PENSTOCK_REDIS_SHARDS": str(SHARDS),
    "PENSTOCK_SERVER_DRAIN": "5s",
    "PENSTOCK_SERVER_DRAIN_GRACE": "0s",  # nobody needs to be sent elsewhere
}


@dataclass(frozen=True, slots=True)
class Layout:
    """How many processes of each kind, and what the workers run."""

    target: str
    gateways: int = 1
    batchers: int = 1
    workers: int = 1  # processes
    slots: int = 1  # in each
    flags: Sequence[str] = ()  # more for the workers
    settings: Mapping[str, str] = field(default_factory=dict)  # the same, as variables
    config: str = ""  # a file, for all of them
    credential: str = ""  # an Authorization header that is let in
    primaries: int = 1  # several: a cluster

    def __str__(self) -> str:
        return (
            f"{_many(self.gateways, 'gateway')}, {_many(self.batchers, 'batcher')}, "
            f"{_many(self.workers, 'worker process', 'es')} of {_many(self.slots, 'slot')}"
        )


@dataclass(slots=True)
class Installation:
    valkey: Valkey | ValkeyCluster
    gateways: list[Server] = field(default_factory=list)
    batchers: list[Server] = field(default_factory=list)
    workers: list[Server] = field(default_factory=list)

    @property
    def urls(self) -> list[str]:
        return [gateway.url for gateway in self.gateways]

    @property
    def processes(self) -> dict[str, int]:
        """The pid of each process, by a name for readers."""
        named = dict(self.valkey.processes)
        for kind, servers in (
            ("gateway", self.gateways),
            ("batcher", self.batchers),
            ("worker", self.workers),
        ):
            for number, server in enumerate(servers, start=1):
                named[kind if len(servers) == 1 else f"{kind} {number}"] = server.pid
        return named


@contextlib.contextmanager
def installation(
    layout: Layout, prepare: Callable[[Valkey | ValkeyCluster], None] = lambda store: None
) -> Iterator[Installation]:
    """An installation, once every gateway answers, every slot is known and every shard has a batcher.

    `prepare` puts into the store what must be there before the first process starts.
    """
    with contextlib.ExitStack() as held:
        cluster = layout.primaries > 1
        store = held.enter_context(valkey_cluster(layout.primaries) if cluster else valkey())
        prepare(store)
        common = ["--redis", store.url, "--admin-port", "0", "--log-level", "warning"]
        if layout.config:
            common += ["--config", layout.config]
        commands: list[tuple[int, list[str]]] = [
            (layout.workers, ["worker", layout.target, "--slots", str(layout.slots), *layout.flags]),
            (layout.batchers, ["batcher"]),
            (layout.gateways, ["gateway", "--port", "0"]),
        ]
        own = {"worker": {**SETTINGS, **layout.settings}}
        started = [
            [
                held.enter_context(launched([*PENSTOCK, *command, *common], own.get(command[0], SETTINGS)))
                for _ in range(count)
            ]
            for count, command in commands
        ]  # fmt: skip
        processes = [process for group in started for process in group]
        # All processes are told to end before any of them is waited for.
        held.callback(_terminate, processes)
        workers, batchers, gateways = ([process.server() for process in group] for group in started)
        running = Installation(store, gateways, batchers, workers)
        _until(lambda: why_not_ready(running, layout), processes)
        yield running
        for process in processes:
            process.still_there()


def why_not_ready(running: Installation, layout: Layout) -> str:
    """The first thing that is missing, or nothing."""
    slots, share = layout.workers * layout.slots, SHARDS // layout.batchers
    for server in (*running.workers, *running.batchers, *running.gateways):
        said = _asked(f"{server.admin}/readyz")
        if said is None:
            return f"{server.admin} is not ready"
    for batcher in running.batchers:
        if healthy(json.loads(_asked(f"{batcher.admin}/internal/workers") or "[]")) < slots:
            return f"not all of {slots} slots are known at {batcher.admin}"
        if len(json.loads(_asked(f"{batcher.admin}/internal/health") or "{}").get("shards", ())) < share:
            return f"{batcher.admin} has fewer than {share} shards"
    for gateway in running.gateways:
        if _asked(f"{gateway.url}/v1/inference", b'{"input":"are you there?"}', layout.credential) is None:
            return f"{gateway.url} does not answer"
    return ""


def healthy(rows: Sequence[dict[str, Any]]) -> int:
    return sum(row.get("status") == "healthy" for row in rows)


def _asked(url: str, body: bytes | None = None, credential: str = "") -> bytes | None:
    """The body of a good answer; None if there was none."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": credential} if credential else {})
    question = urllib.request.Request(url, body, headers)
    try:
        with DIRECT.open(question, timeout=5) as answer:
            text: bytes = answer.read()
            return text
    except OSError:
        return None


def _until(missing: Callable[[], str], processes: Sequence[Launched]) -> None:
    give_up = time.monotonic() + READY_SECONDS
    while reason := missing():
        for process in processes:
            process.still_there()
        if time.monotonic() > give_up:
            raise DidNotServe(f"not ready within {READY_SECONDS} s: {reason}")
        time.sleep(0.1)


def _terminate(processes: Sequence[Launched]) -> None:
    for process in processes:
        process.terminate()


def _many(count: int, noun: str, more: str = "s") -> str:
    return f"{count} {noun}{more if count != 1 else ''}"
