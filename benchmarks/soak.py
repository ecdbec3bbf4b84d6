"""Whether a server that runs for hours holds more and more.

    python -m benchmarks.soak                    two hours of `penstock serve`, after an hour of warm-up
    python -m benchmarks.soak --form redis       of a gateway, a batcher, a worker and a Valkey

An open loop of all that real traffic has: new inputs of several sizes, inputs that come again, tasks,
Idempotency-Keys, clients that leave, wrong bodies, deadlines that are too short. All settings are the defaults.
Every ten seconds the memory and the descriptors of each process are noted. What is kept on purpose (results for ten
minutes, figures for the page's charts for an hour) has filled up once the warm-up is over. The slope of the rest is
what is promised.
"""

import argparse
import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from time import monotonic

from benchmarks.echo import TARGET
from benchmarks.figure import Check, Figure, Say, above_zero, conduct, number, options
from benchmarks.installation import Layout, installation
from benchmarks.memory import Held, held, slope
from benchmarks.serving import serving
from benchmarks.soak_load import EXPECTED, load
from benchmarks.table import markdown_table

NAME = "soak"
EVERY = 10.0  # seconds between two samples
GROWTH = 1.0  # MiB an hour
MORE = 1.0  # descriptors: clients open a connection more now and then

Samples = dict[str, list[tuple[float, Held]]]


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__)
    parser.add_argument("--form", choices=("embedded", "redis"), default="embedded")
    parser.add_argument("--minutes", type=above_zero, default=185.0, help="in all; 185 by default")
    parser.add_argument(
        "--warm-up", type=above_zero, default=65.0, help="minutes of them that do not count; 65"
    )
    parser.add_argument("--rate", type=above_zero, default=100.0, help="requests a second; 100")
    return parser.parse_args(argv)


@contextlib.contextmanager
def _served(form: str) -> Iterator[tuple[list[str], Mapping[str, int]]]:
    """The URLs, and the processes by name."""
    if form == "embedded":
        with serving(TARGET) as server:
            yield [server.url], {"server": server.pid}
    else:
        with installation(Layout(TARGET)) as running:
            yield running.urls, running.processes


def measure(given: argparse.Namespace, say: Say) -> Figure:
    with _served(given.form) as (urls, processes):
        samples, endings = asyncio.run(_soaked(given, urls, processes, say))
    return figure(given, samples, endings)


async def _soaked(
    given: argparse.Namespace, urls: Sequence[str], processes: Mapping[str, int], say: Say
) -> tuple[Samples, Counter[str]]:
    samples: Samples = {name: [] for name in processes}
    seconds, began = given.minutes * 60, monotonic()
    loading = asyncio.create_task(load(urls, given.rate, seconds))
    while not loading.done():
        now = monotonic() - began
        for name, each in held(processes).items():
            samples[name].append((now, each))
        if len(samples[next(iter(processes))]) % 60 == 1:
            shown = ", ".join(f"{name} {some[-1][1].mib:.1f} MiB" for name, some in samples.items())
            say(f"{now / 60:.0f} min: {shown}")
        await asyncio.wait([loading], timeout=EVERY)
    return samples, await loading


def figure(given: argparse.Namespace, samples: Samples, endings: Counter[str]) -> Figure:
    rows, checks = [], []
    for name, all_of_it in samples.items():
        counted = [each for each in all_of_it if each[0] >= given.warm_up * 60]
        if not counted:
            continue
        times = [when for when, _ in counted]
        memory = slope(times, [each.mib for _, each in counted])
        part = max(1, len(counted) // 3)
        first, last = (
            fmean(each.descriptors for _, each in some) for some in (counted[:part], counted[-part:])
        )
        rows.append(
            [
                name, number(counted[0][1].mib), number(counted[-1][1].mib),
                f"{memory.each_hour:+.2f} ± {memory.error:.2f}", number(first), number(last),
            ]
        )  # fmt: skip
        checks.append(Check(f"{name}: growth", memory.each_hour, GROWTH, "MiB an hour"))
        checks.append(Check(f"{name}: more descriptors in the last third", last - first, MORE, ""))
    failed = sum(count for what, count in endings.items() if what not in EXPECTED)
    checks.append(Check("requests that failed", float(failed), 0.0, ""))
    header = [
        "process",
        "MiB after the warm-up",
        "at the end",
        "an hour",
        "descriptors, first third",
        "last third",
    ]
    said = ", ".join(f"{what} × {count:,}" for what, count in sorted(endings.items()))
    noted = {
        name: [(when, each.mib, each.descriptors) for when, each in some] for name, some in samples.items()
    }
    return Figure(
        "Soak",
        f"{given.minutes:g} minutes at {given.rate:g} requests a second; the first {given.warm_up:g} do not count.",
        [markdown_table(header, rows)],
        checks,
        notes=[f"{sum(endings.values()):,} requests: {said}"],
        data={"endings": endings, "samples": noted},
    )


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
