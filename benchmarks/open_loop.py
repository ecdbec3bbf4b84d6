"""The open loop of `penstock bench`, from several processes at once where one cannot offer enough.

The benchmarks of high rates over Redis offer their load so. Independent Poisson streams add up to one Poisson
stream. Latencies are merged as they are and not as percentiles, and batch sizes come from the metrics of all
batchers.
"""

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from benchmarks.generator import SPARE_SECONDS, Measured, Traffic, measured
from benchmarks.open_loop_process import Seen
from penstock.bench.scrape import Window, compare, scrape
from penstock.load.report import Batches, summarize

ROOT = Path(__file__).parent.parent
SETTLING_SECONDS = 1.0  # for opening connections, before batches are counted
SEEDS = 1000  # for the processes of one run; those of the next seed begin behind them


def offer(
    urls: Sequence[str],
    traffic: Traffic,
    generators: int,
    batchers: Sequence[str],
    at_start: Callable[[float], None] = lambda moment: None,
) -> Measured:
    """Loads all gateways alike. `batchers` are the URLs of their admin planes.

    `at_start` is told when the schedule begins, on the clock that all processes of a machine share.
    """
    count = max(generators, len(urls))
    with tempfile.TemporaryDirectory(prefix="open-loop-") as folder, contextlib.ExitStack() as held:
        files = [Path(folder, str(index)) for index in range(count)]
        processes = [
            held.enter_context(_process(_arguments(urls[index % len(urls)], traffic, index, count, file)))
            for index, file in enumerate(files)
        ]
        for process in processes:
            _await_ready(process)
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        began = time.monotonic()
        at_start(began)
        settled = traffic.warmup + min(SETTLING_SECONDS, traffic.seconds / 4)
        _sleep_until(began + settled)
        before = [scrape(admin) for admin in batchers]
        _sleep_until(began + traffic.warmup + traffic.seconds)
        after = [scrape(admin) for admin in batchers]
        for process in processes:
            _, said = process.communicate(timeout=SPARE_SECONDS)
            if process.returncode:
                raise RuntimeError(f"a load generator: {_last(said)}")
        seen = [msgspec.msgpack.decode(file.read_bytes(), type=Seen) for file in files]
    windows = [compare(first, last, None) for first, last in zip(before, after, strict=True)]
    return merged(seen, batches(windows))


def merged(parts: Sequence[Seen], batch: Batches) -> Measured:
    errors: dict[str, int] = {}
    for part in parts:
        for code, number in part.errors.items():
            errors[code] = errors.get(code, 0) + number
    return measured(
        summarize(
            duration=max(part.seconds for part in parts),
            latencies=[latency for part in parts for latency in part.latencies],
            rejected_latencies=[latency for part in parts for latency in part.refusals],
            errors=errors,
            batch=batch,
            busy=None,
            generator_lateness=[late for part in parts for late in part.lateness],
            resent=sum(part.resent for part in parts),
        ).as_dict()
    )


def batches(windows: Sequence[Window | None]) -> Batches:
    """The batches of all batchers together; empty if one of them gave no metrics."""
    told = [window.batch for window in windows if window is not None]
    count = sum(batch.count for batch in told)
    if len(told) < len(windows) or not count:
        return Batches()
    members = sum(batch.count * (batch.mean_size or 0.0) for batch in told)
    return Batches(count, round(members / count, 3))


def _arguments(url: str, traffic: Traffic, index: int, count: int, file: Path) -> list[str]:
    rate = traffic.rate / count
    return [
        url,
        f"{rate:g}",
        f"{traffic.seconds:g}",
        f"{traffic.warmup:g}",
        str(traffic.seed * SEEDS + index),
        str(traffic.characters or ""),
        str(file),
    ]


@contextlib.contextmanager
def _process(arguments: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.open_loop_process", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _await_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stderr is not None
    if process.stdout.readline().strip() != "ready":
        raise RuntimeError(f"a load generator: {_last(process.stderr.read())}")


def _last(words: str) -> str:
    lines = words.strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def _sleep_until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))
