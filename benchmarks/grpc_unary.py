"""Unary calls of gRPC a second, 2 KB in and out, beside a bare echo of grpc.aio in the same run, and the
processor time of each call. `python -m benchmarks.grpc_unary`; it needs h2load (Debian: nghttp2-client).

The load is h2load's, in a closed loop. The servers take turns, round by round. Penstock's calls go through its
queue to a function in a process of its own; the echo answers by itself. The processor time is that of the
process that speaks gRPC.
"""

import argparse
import contextlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks import processor
from benchmarks.echo import FLAGS, TARGET, TEXT
from benchmarks.figure import Check, Figure, Say, at_least_one, conduct, number, options, reach
from benchmarks.serving import free_port, launched, serving
from benchmarks.table import markdown_table
from penstock.errors import UserMistake
from penstock.protos.messages import message

NAME = "grpc_unary"
PROMISED = 10_000.0  # calls a second, on two cores with the load generator
PENSTOCK, ECHO = "Penstock", "bare echo of grpc.aio"
ECHO_SERVER = Path(__file__).parent / "peers" / "servers" / "grpc_aio_echo.py"
PATH = "/penstock.v1.Inference/Infer"
FIELDS = ("content-type: application/grpc", "te: trailers")
_DONE = re.compile(r"finished in [\d.]+\w+, ([\d.]+) req/s")
_DATA = re.compile(r"headers \(space savings [-\d.]+%\), ([\d.]+)([KMG]?B) \(\d+\) data")
_UNITS = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30}
_STATUS = re.compile(r"requests: (\d+) total, .* (\d+) succeeded, (\d+) failed")


class Round(NamedTuple):
    """What one server did in one round."""

    per_second: float
    microseconds: float  # of processor time, for a call
    failed: int


def framed(text: str) -> bytes:
    content: bytes = message("penstock.v1.InferRequest")(text=text).SerializeToString()
    return b"\0" + len(content).to_bytes(4, "big") + content


@contextlib.contextmanager
def penstock() -> Iterator[tuple[int, int]]:
    port = free_port()
    with serving(TARGET, *FLAGS, "--grpc-port", str(port)) as server:
        yield port, server.pid


@contextlib.contextmanager
def grpc_aio() -> Iterator[tuple[int, int]]:
    port = free_port()
    with launched([sys.executable, str(ECHO_SERVER), str(port)]) as process:
        _wait_for(port)
        yield port, process.pid


SERVERS: dict[str, Callable[[], contextlib.AbstractContextManager[tuple[int, int]]]] = {
    PENSTOCK: penstock,
    ECHO: grpc_aio,
}


def _wait_for(port: int) -> None:
    while True:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)


def processor_seconds(pid: int) -> float:
    return processor.parse(Path(f"/proc/{pid}/stat").read_text()).seconds


def h2load(
    url: str, body: Path, fields: Sequence[str], pid: int, seconds: float, flags: Sequence[str], least: int
) -> Round:
    """One round of load. `fields`: the header's. `pid`: the process whose time is measured. `least`: bytes that
    a good answer has; a call of gRPC that failed has none, and h2load takes it for a success."""
    command = ["h2load", f"-D{seconds:g}", "-t1", "-d", str(body), *flags]
    for field in fields:
        command += ["-H", field]
    before = processor_seconds(pid)
    ran = subprocess.run([*command, url], capture_output=True, text=True, check=True)
    spent = processor_seconds(pid) - before
    done, status = _DONE.search(ran.stdout), _STATUS.search(ran.stdout)
    if done is None or status is None:
        raise RuntimeError(f"h2load said something else: {ran.stdout[-300:]}")
    answered, data = int(status[2]), _DATA.search(ran.stdout)
    if data is None or float(data[1]) * _UNITS[data[2]] < 0.9 * least * answered:
        raise RuntimeError(f"the answers are too short to be good ones: {ran.stdout[-300:]}")
    return Round(float(done[1]), spent / max(1, answered) * 1e6, int(status[3]))


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__, seconds=5, rounds=3)
    parser.add_argument("--connections", type=at_least_one, default=8)
    parser.add_argument("--streams", type=at_least_one, default=32, help="calls at once on each connection")
    return parser.parse_args(argv)


def measure(given: argparse.Namespace, say: Say) -> Figure:
    need_h2load()
    rounds: dict[str, list[Round]] = {name: [] for name in SERVERS}
    load = [f"-c{given.connections}", f"-m{given.streams}"]
    with tempfile.TemporaryDirectory() as folder:
        body = Path(folder, "body")
        body.write_bytes(framed(TEXT))
        for _ in range(given.rounds):
            for name, start in SERVERS.items():
                with start() as (port, pid):
                    url = f"http://127.0.0.1:{port}{PATH}"
                    rounds[name].append(h2load(url, body, FIELDS, pid, given.seconds, load, len(TEXT)))
                    say(f"  {name}: {rounds[name][-1].per_second:,.0f}/s")
    ours = median(each.per_second for each in rounds[PENSTOCK])
    spent = {name: median(each.microseconds for each in done) for name, done in rounds.items()}
    return Figure(
        title="Unary calls of gRPC",
        method=(
            f"h2load with {given.connections} connections of {given.streams} streams, 2 KB in and out, "
            f"{given.seconds:g} s; medians of {given.rounds} interleaved rounds. Penstock hands each to a function "
            "in its own process; the echo answers by itself. Processor time is that of the process that speaks "
            "gRPC."
        ),
        tables=[table_of("server", rounds)],
        checks=[
            Check("calls a second", ours, PROMISED, "/s", at_least=True),
            Check("processor time of a call", spent[PENSTOCK], spent[ECHO], "µs"),
        ],
        data={"rounds": {name: [each._asdict() for each in done] for name, done in rounds.items()}},
    )


def need_h2load() -> None:
    if shutil.which("h2load") is None:
        raise UserMistake("this needs h2load: apt-get install nghttp2-client")


def table_of(what: str, rounds: Mapping[str, Sequence[Round]]) -> str:
    """The table of what each server did, or each way."""
    rows = [
        [
            name,
            number(median(each.per_second for each in done)),
            reach([each.per_second for each in done]),
            f"{number(median(each.microseconds for each in done))} µs",
            str(sum(each.failed for each in done)),
        ]
        for name, done in rounds.items()
    ]
    return markdown_table([what, "a second", "range", "processor time of each", "failed"], rows)


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
