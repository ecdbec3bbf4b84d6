"""One process of the open loop: `benchmarks.open_loop_process URL RATE SECONDS WARM-UP SEED CHARACTERS FILE`.

`open_loop` starts as many as it needs. It says `ready` when its schedule is made, waits for a line to start
together with others, and leaves everything it saw in FILE: exact latencies, so that those of several processes can
be put together.
"""

import asyncio
import sys
import time
from array import array
from collections import Counter
from pathlib import Path

import msgspec
import uvloop

from penstock.bench.load import Load, Run
from penstock.bench.options import parse_server, reach
from penstock.bench.outcomes import REFUSALS
from penstock.bench.plan import Shape, make_plan
from penstock.errors import UserMistake


class Seen(msgspec.Struct, array_like=True):
    """What became of the requests that were due in the measured time. Seconds."""

    began: float  # on the clock that all processes of a machine share
    seconds: float
    latencies: list[float]  # of good answers
    refusals: list[float]
    lateness: list[float]  # of this generator
    errors: dict[str, int]
    resent: int


def seen(run: Run, began: float) -> Seen:
    outcomes = run.outcomes
    latencies, refusals, lateness = array("d"), array("d"), array("d")
    errors: Counter[str] = Counter()
    for index in outcomes.measured(run.start, run.end):
        due = outcomes.times[index]
        if outcomes.sent[index]:
            lateness.append(outcomes.sent[index] - due)
        latency = outcomes.done[index] - due
        if outcomes.status[index] == 200:
            latencies.append(latency)
            continue
        errors[outcomes.codes[index]] += 1
        if outcomes.status[index] in REFUSALS:
            refusals.append(latency)
    return Seen(
        began,
        run.end - run.start,
        list(latencies),
        list(refusals),
        list(lateness),
        dict(errors),
        outcomes.resent,
    )


async def offer(url: str, shape: Shape) -> Seen:
    server = parse_server(url)
    plan, address = make_plan(shape, server), reach(server)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    load = Load(plan, address)
    run = await load.run()
    return seen(run, time.monotonic() - load.elapsed)


def main() -> None:
    url, rate, seconds, warmup, seed, characters, file = sys.argv[1:]
    shape = Shape(
        rate=float(rate),
        duration=float(seconds),
        warmup=float(warmup),
        seed=int(seed),
        payload_size=int(characters) if characters else None,
    )
    try:
        result = uvloop.run(offer(url, shape))
    except UserMistake as mistake:
        sys.exit(mistake.message)
    Path(file).write_bytes(msgspec.msgpack.encode(result))


if __name__ == "__main__":
    main()
