"""What the registry costs: one heartbeat among n processes, in Redis and in the process that sends it; and a line.

    python -m benchmarks.registry --sizes 10,100,1000,10000

A real registry over a Valkey, in which n idle workers are written down as they would be by their own heartbeats.
Every heartbeat reads all of them, so with n processes the whole costs n² / `redis.heartbeat`. `penstock sim
--cells` counts with what this gives: a fixed part, and one for each process that is there.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median

from msgspec import json
from redis import Redis

from benchmarks.figure import Figure, Say, at_least_one, conduct, options
from benchmarks.table import markdown_table
from benchmarks.valkey import valkey
from penstock.adapters.redis.bus.credits import Credits
from penstock.adapters.redis.bus.registry import Registry
from penstock.adapters.redis.link.connect import RedisSettings, Store
from penstock.types import WorkerId
from penstock.words.heartbeats import GatewayHeartbeat, SlotReport, WorkerHeartbeat

NAME = "registry"
LEASE = 60.0  # seconds: nobody is forgotten while this measures
BEATS = 20  # in one round
IDLE, BATCHES = 100, 2000  # slots in the line, and how often one is taken and put back


@dataclass(frozen=True, slots=True)
class Beat:
    """One heartbeat among so many processes, in microseconds."""

    processes: int
    store: float  # processor time of Redis
    own: float  # processor time of the process that sends it
    answer: int  # bytes that it gets


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__, rounds=3)
    parser.add_argument("--slots", type=at_least_one, default=1, help="of each worker process")
    parser.add_argument("--sizes", default="10,100,1000,10000", metavar="NUMBERS", help="how many processes")
    return parser.parse_args(argv)


def measure(given: argparse.Namespace, say: Say) -> Figure:
    beats = []
    for size in [int(word) for word in given.sizes.split(",")]:
        found = [asyncio.run(_measured(size, given.slots)) for _ in range(given.rounds)]
        beats.append(
            Beat(
                size,
                median(each.store for each in found),
                median(each.own for each in found),
                found[0].answer,
            )
        )
        last = beats[-1]
        say(f"{size} processes: {last.store:.0f} µs in Redis, {last.own:.0f} µs here")
    line = median(asyncio.run(_line()) for _ in range(given.rounds))
    say(f"a slot into the line and out of it: {line:.1f} µs in Redis")
    return figure(beats, line)


async def _line() -> float:
    """Microseconds of Redis for each batch, to put its slot into the line and to take it out."""
    with valkey() as server:
        store = Store(RedisSettings(server.url, timeout=20.0))
        await store.open()
        try:
            credits_ = Credits(store)
            for number in range(IDLE):
                await credits_.post("embed", f"worker-{number:010x}/embed/0")
            with Redis(port=server.port) as client:
                client.config_resetstat()
                for _ in range(BATCHES):
                    slot = await credits_.take("embed", 1.0)
                    assert slot is not None
                    await credits_.post("embed", slot)
                said = client.info("commandstats")
        finally:
            await store.close()
    return float(said["cmdstat_evalsha"]["usec"] + said["cmdstat_bzpopmin"]["usec"]) / BATCHES


async def _measured(size: int, slots: int) -> Beat:
    with valkey() as server:
        settings = RedisSettings(server.url, lease=LEASE, heartbeat=1.0, timeout=20.0)
        store = Store(settings)
        await store.open()
        try:
            key, total = store.keys.registry("workers"), 0
            with Redis(port=server.port) as client:
                seconds, micros = client.time()
                now = int(seconds * 1000 + micros // 1000)
                for number in range(size):
                    text = json.encode(_worker(number, slots))
                    total += len(text)
                    client.hset(key, f"worker-{number:010x}", f"{now} ".encode() + text)
                registry = Registry(store, "gateways", "gateway-1", _gateway)
                await registry.beat()  # the first one reads all that is new
                client.config_resetstat()
                began = time.process_time()
                for _ in range(BEATS):
                    await registry.beat()
                own = time.process_time() - began
                said = client.info("commandstats")["cmdstat_evalsha"]
        finally:
            await store.close()
    return Beat(size, float(said["usec"]) / BEATS, own * 1e6 / BEATS, total)


def _gateway() -> GatewayHeartbeat:
    return GatewayHeartbeat(host="gateway-host-1", pid=1, admin="http://gateway-host-1:9000", waiting=3)


def _worker(number: int, slots: int) -> WorkerHeartbeat:
    slot = SlotReport(model="embed", status="healthy", state="idle", batches=1000 + number, version="1")
    return WorkerHeartbeat(
        host=f"gpu-{number}",
        pid=number,
        admin=f"http://gpu-{number}:9000",
        slots={WorkerId(f"worker-{number:010x}/embed/{each}"): slot for each in range(slots)},
    )


def figure(beats: Sequence[Beat], line: float) -> Figure:
    rows = [
        [f"{each.processes:,}", f"{each.store:,.0f}", f"{each.own:,.0f}", f"{each.answer / 1024:,.0f}"]
        for each in beats
    ]
    header = ["processes", "Redis, µs a heartbeat", "the process, µs", "what it reads, KiB"]
    first, last = beats[0], beats[-1]
    each = (last.store - first.store) / (last.processes - first.processes or 1)
    fixed = first.store - each * first.processes
    return Figure(
        "The registry",
        "One heartbeat of a gateway among idle workers, whose heartbeats do not change.",
        [markdown_table(header, rows)],
        notes=[
            f"In Redis about {fixed:.0f} µs and {each:.2f} µs for each process that is there.",
            f"A slot into the line and out of it, once for each batch: {line:.1f} µs in Redis.",
        ],
        data={"beats": [asdict(beat) for beat in beats], "line": line},
    )


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
