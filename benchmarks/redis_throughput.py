"""Requests a second through gateway, Valkey, batcher and worker, all on this machine with the load generator.

    python -m benchmarks.redis_throughput

Beside it the embedded server, which is the limit: the same function and the same batching, with nothing between
the processes but a pipe. The two take turns, each time freshly started. What Valkey was asked comes from its own
count, what each process used from the kernel's.
"""

import argparse
import resource
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median

from benchmarks import echo, heads, processor, wrk
from benchmarks.figure import Check, Figure, Say, at_least_one, conduct, number, options, reach
from benchmarks.installation import Layout, installation
from benchmarks.serving import serving
from benchmarks.table import markdown_table
from benchmarks.valkey import Valkey, ValkeyCluster, grown

NAME = "redis_throughput"
# Promised: requests a second, the part of embedded, commands each.
RATE, OF_EMBEDDED, COMMANDS = 10_000.0, 0.45, 0.3
WARM_UP_SECONDS = 2  # not counted
TOP_COMMANDS = 8  # that are shown one by one
GENERATOR = "wrk"


@dataclass(frozen=True, slots=True)
class Turn:
    """One server, or one installation, once."""

    load: wrk.Measurement
    processors: Mapping[str, float]  # seconds by process
    commands: Mapping[str, int] = field(default_factory=dict)

    @property
    def commands_per_request(self) -> float | None:
        return sum(self.commands.values()) / self.load.answers if self.load.answers else None


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__, rounds=5)
    parser.add_argument("--seconds", type=at_least_one, default=8, help="measured in each turn; 8 by default")
    parser.add_argument("--connections", type=at_least_one, default=512)
    parser.add_argument("--threads", type=at_least_one, default=1, help="wrk's own")
    parser.add_argument("--slots", type=at_least_one, default=1, help="batches at once in the worker process")
    return parser.parse_args(argv)


def measure(given: argparse.Namespace, say: Say) -> Figure:
    wrk.find()
    load = wrk.Load(given.connections, given.threads, given.seconds)
    embedded: list[Turn] = []
    redis: list[Turn] = []
    for number_of_round in range(given.rounds):
        turns = [("embedded", embedded, _embedded), ("over Redis", redis, _over_redis)]
        # Whoever went second goes first in the next round.
        for title, results, turn in turns if number_of_round % 2 == 0 else reversed(turns):
            results.append(turn(load, given.slots))
            last = results[-1]
            said = f"{last.load.rate:>9,.0f}/s"
            if last.commands:
                said += f"  {number(last.commands_per_request)} commands a request"
            if last.load.errors:
                said += f"  {last.load.errors} errors"
            say(f"round {number_of_round + 1}/{given.rounds}  {title:<10} {said}")
    return figure(redis, embedded, load, given.slots)


def _embedded(load: wrk.Load, _slots: int) -> Turn:
    """The embedded server with one worker, with which it is fastest, whatever the installation has."""
    with serving(echo.TARGET, *echo.FLAGS) as server:
        return loaded(server.url, {"penstock serve": server.pid}, load, None)


def _over_redis(load: wrk.Load, slots: int) -> Turn:
    with installation(Layout(echo.TARGET, slots=slots, flags=echo.MAX_BATCH)) as running:
        return loaded(running.urls[0], running.processes, load, running.valkey)


def loaded(
    url: str,
    processes: Mapping[str, int],
    load: wrk.Load,
    store: Valkey | ValkeyCluster | None,
    credentials: Sequence[str] = (),
) -> Turn:
    """After a warm-up: the rate, the processor time by process, and the commands that Valkey got."""
    offer = heads.prepared(heads.SAME, f"{url}/v1/inference", echo.body, credentials)
    offer(load.lasting(WARM_UP_SECONDS))
    counted = store.commands() if store else {}
    before = _used(processes)
    result = offer(load)
    after = _used(processes)
    commands = grown(counted, store.commands()) if store else {}
    return Turn(result, processor.between(before, after), commands)


def _used(processes: Mapping[str, int]) -> dict[str, float]:
    """Seconds by process, also of the load generator and of everything else on the machine."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = {**processor.used(processes), GENERATOR: ended.ru_utime + ended.ru_stime}
    return {**seconds, processor.OTHERS: processor.whole_machine() - sum(seconds.values())}


def figure(redis: Sequence[Turn], embedded: Sequence[Turn], load: wrk.Load, slots: int) -> Figure:
    ours, limit = (median(turn.load.rate for turn in turns) for turns in (redis, embedded))
    commands = [turn.commands_per_request for turn in redis]
    rows = [
        [
            title,
            f"{rate:,.0f}",
            reach([turn.load.rate for turn in turns]),
            f"{rate / limit:.2f}" if limit else "–",
            f"{sum(turn.load.errors for turn in turns):,}",
        ]
        for title, rate, turns in (("embedded: penstock serve", limit, embedded), ("over Redis", ours, redis))
    ]
    return Figure(
        title="Throughput over Redis",
        method=(
            f"wrk, {load.connections} connections, 2 KB of text in and out, echo, batches up to 64; Valkey, "
            f"1 gateway, 1 batcher and 1 worker process ({slots} slots), beside `penstock serve`; "
            f"medians of {len(redis)} interleaved rounds of {load.seconds} s, each freshly started."
        ),
        tables=[
            markdown_table(["", "requests/s", "range", "× embedded", "errors"], rows),
            costs({"over Redis": redis, "embedded": embedded}),
            asked(redis),
        ],
        checks=[
            Check("requests/s over Redis", ours, RATE, "/s", at_least=True),
            Check(
                "of the embedded server's", ours / limit if limit else None, OF_EMBEDDED, "×", at_least=True
            ),
            Check(
                "Redis commands a request",
                None if None in commands else median(each for each in commands if each is not None),
                COMMANDS,
                "",
            ),
        ],
        data={
            "over_redis": [as_data(turn) for turn in redis],
            "embedded": [as_data(turn) for turn in embedded],
        },
    )


def costs(measured: Mapping[str, Sequence[Turn]]) -> str:
    """Microseconds of processor time a request, medians."""
    rows = []
    for title, turns in measured.items():
        for name in turns[0].processors:
            each = [turn.processors.get(name, 0.0) / turn.load.answers for turn in turns if turn.load.answers]
            rows.append([title, name, f"{median(each) * 1e6:.1f}" if each else "–"])
    return markdown_table(["", "process", "µs of CPU a request"], rows, left=2)


def asked(turns: Sequence[Turn]) -> str:
    """The commands that Valkey was sent most, for each request."""
    answers = sum(turn.load.answers for turn in turns)
    totals: dict[str, int] = {}
    for turn in turns:
        for name, count in turn.commands.items():
            totals[name] = totals.get(name, 0) + count
    first = sorted(totals.items(), key=lambda each: -each[1])
    rows = [[name, _per(count, answers)] for name, count in first[:TOP_COMMANDS]]
    rest = sum(count for _, count in first[TOP_COMMANDS:])
    rows += [["all others", _per(rest, answers)], ["together", _per(sum(totals.values()), answers)]]
    return markdown_table(["Redis command", "calls a request"], rows)


def _per(count: int, answers: int) -> str:
    return f"{count / answers:.4f}" if answers else "–"


def as_data(turn: Turn) -> dict[str, object]:
    return {
        **asdict(turn.load),
        "rate": turn.load.rate,
        "processor_seconds": dict(turn.processors),
        "commands": dict(turn.commands),
    }


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
