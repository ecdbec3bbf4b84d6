"""As many requests as several gateways will take at once, by wrk where it is installed, else by a generator here.

That generator (`closed_loop_process`) needs nothing but what Penstock needs. Called by the benchmarks that want as
much as several gateways take (`redis_scaling`, `gpu`).
"""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks import wrk
from benchmarks.wrk import Load, Measurement

ROOT = Path(__file__).parent.parent
SPARE_SECONDS = 60  # beyond its own time, until the generator counts as hung
WRK, OURS = "wrk", "benchmarks.closed_loop_process"


def generator() -> str:
    return WRK if shutil.which("wrk") else OURS


def saturate(urls: Sequence[str], body: bytes, load: Load, generators: int = 1) -> Measurement:
    """`load` is shared by all: connections and threads are dealt out to `generators` processes, one URL each."""
    count = max(generators, len(urls))
    share = Load(max(1, load.connections // count), max(1, load.threads // count), load.seconds)
    one = wrk.measure if generator() == WRK else measure
    with ThreadPoolExecutor(count) as pool:
        turns = [pool.submit(one, urls[index % len(urls)], body, share) for index in range(count)]
        return together([turn.result() for turn in turns])


def measure(url: str, body: bytes, load: Load, start: float | None = None) -> Measurement:
    """As `wrk.measure`, with the generator of `closed_loop_process`.

    `start`: the moment from which answers count, on the clock that all processes of a machine share. What is asked
    before it is a warm-up. Without it the opening of connections counts too.
    """
    command = [sys.executable, "-m", OURS, url, str(load.connections), str(load.seconds)]
    limit: float = load.seconds + SPARE_SECONDS
    if start is not None:
        command.append(repr(start))
        limit += max(0.0, start - time.monotonic())
    finished = subprocess.run(command, input=body, capture_output=True, cwd=ROOT, timeout=limit, check=False)
    if finished.returncode:
        words = finished.stderr.decode(errors="replace").strip().splitlines()
        raise RuntimeError(f"the generator: {words[-1] if words else finished.returncode}")
    return Measurement(**json.loads(finished.stdout))


def together(parts: Sequence[Measurement]) -> Measurement:
    """The measurements of generators that ran side by side, as one: answers add up, and time does not."""
    return Measurement(
        answers=sum(part.answers for part in parts),
        seconds=max(part.seconds for part in parts),
        bad_status=sum(part.bad_status for part in parts),
        socket_errors=sum(part.socket_errors for part in parts),
    )
