"""Clients of several tiers, each with an API key: `python -m benchmarks.tiered_load FILE < traffic`, one process.

`fairness` and `overload_tiers` start it. Open loop: a request goes out when it is due, whatever became of those
before. A client that is refused (503) may try again, after a back-off of its own choosing: those who pay no heed to
`Retry-After` are what makes a storm. FILE gets what became of every request.
"""

import asyncio
import gc
import sys
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from random import Random

import msgspec
import uvloop

from penstock.bench.alarm import Alarm
from penstock.bench.options import Server, parse_server, reach
from penstock.bench.outcomes import Outcomes
from penstock.bench.plan import filler
from penstock.bench.pool import Pool
from penstock.load.arrivals import poisson

CONNECTIONS = 8_000  # at most
OPENED = 512  # before the first request
PATIENCE = 15.0  # seconds after the last request, for the answers still owed
BACK_OFF = 0.1  # seconds before the second attempt; twice as long before each further one, give or take half
CHARACTERS = 64  # of each input


class Phase(msgspec.Struct, frozen=True):
    rate: float  # requests a second, first attempts only
    seconds: float


class TieredTraffic(msgspec.Struct, frozen=True):
    url: str
    phases: list[Phase]
    shares: list[float]  # of the requests, by tier
    keys: list[list[str]]  # of the tenants of each tier
    timeout_ms: int  # 0: the server's own time limits
    attempts: int = 1  # in all
    seed: int = 0


class Seen(msgspec.Struct, array_like=True):
    """One value for each request, in the order in which they were due. Times are seconds from the start."""

    due: list[float]
    tier: list[int]
    sent: list[float]  # of the last attempt
    done: list[float]
    status: list[int]  # of the last attempt; 0: none
    attempts: list[int]
    late: list[float]  # by how much this process was late with first attempts


class Attempts(Outcomes):
    """Sends what was refused again, as long as its client has attempts left."""

    def __init__(self, times: "array[float]", most: int, rng: Random) -> None:
        super().__init__(times)
        self.count = array("B", bytes(len(times)))
        self.last_sent = array("d", bytes(8 * len(times)))
        self.pool: Pool
        self._most = most
        self._rng = rng
        self._loop = asyncio.get_running_loop()

    def went(self, index: int, now: float) -> None:
        super().went(index, now)
        self.last_sent[index] = now
        self.count[index] += 1

    def answered(self, index: int, now: float, status: int, body: bytes) -> None:
        tried = self.count[index]
        if status == 503 and tried < self._most:
            pause = BACK_OFF * 2 ** (tried - 1) * self._rng.uniform(0.5, 1.5)
            self._loop.call_later(pause, self.pool.submit, index)
        else:
            super().answered(index, now, status, body)


def requests(traffic: TieredTraffic, server: Server) -> list[list[bytes]]:
    """By tier, one request for each of its tenants. All have the same input."""
    limit = b',"timeout_ms":%d' % traffic.timeout_ms if traffic.timeout_ms else b""
    body = b'{"input":"%s"%s}' % (filler(CHARACTERS), limit)
    return [
        [
            f"POST {server.path} HTTP/1.1\r\nHost: {server.authority}\r\nAuthorization: Bearer {key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
            for key in keys
        ]
        for keys in traffic.keys
    ]


def schedule(traffic: TieredTraffic, rng: Random) -> "array[float]":
    times, start = array("d"), 0.0
    for phase in traffic.phases:
        times.extend(start + at for at in poisson(phase.rate, phase.seconds, rng))
        start += phase.seconds
    return times


async def offer(traffic: TieredTraffic) -> Seen:
    server, rng = parse_server(traffic.url), Random(traffic.seed)
    times = schedule(traffic, rng)
    tiers = rng.choices(range(len(traffic.shares)), traffic.shares, k=len(times))
    texts = requests(traffic, server)
    chosen = [rng.choice(texts[tier]) for tier in tiers]
    outcomes = Attempts(times, traffic.attempts, rng)
    pool = outcomes.pool = Pool(reach(server), CONNECTIONS, chosen.__getitem__, outcomes)
    await pool.prepare(OPENED)
    await _walk(times, pool)
    settled = asyncio.Event()
    pool.on_settled = lambda: settled.set() if outcomes.settled >= len(times) else None
    try:
        async with asyncio.timeout(PATIENCE):
            while outcomes.settled < len(times):
                settled.clear()
                await settled.wait()
    except TimeoutError:
        pass  # the pool counts what is unanswered when it closes
    await pool.close(unanswered="NO_ANSWER")
    lateness = [sent - due for due, sent in zip(times, outcomes.sent, strict=True) if sent]
    return Seen(
        list(times), tiers, list(outcomes.last_sent), list(outcomes.done), list(outcomes.status),
        list(outcomes.count), lateness,
    )  # fmt: skip


async def _walk(times: Sequence[float], pool: Pool) -> None:
    """Submit each when it is due."""
    ended, index = asyncio.Event(), 0
    start = pool.start = time.monotonic()

    def due() -> None:
        nonlocal index
        now = time.monotonic() - start
        while index < len(times) and times[index] <= now:
            pool.submit(index)
            index += 1
        if index < len(times):
            alarm.set(start + times[index])
        else:
            ended.set()

    alarm = Alarm(asyncio.get_running_loop(), due)
    due()
    await ended.wait()
    alarm.close()


def main() -> None:
    traffic = msgspec.json.decode(sys.stdin.buffer.read(), type=TieredTraffic)
    gc.disable()  # nothing made here is cyclic, and a collection is a pause of milliseconds
    Path(sys.argv[1]).write_bytes(msgspec.msgpack.encode(uvloop.run(offer(traffic))))


if __name__ == "__main__":
    main()
