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
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks import machine, processor
from benchmarks.echo import FLAGS, TARGET, TEXT
from benchmarks.serving import free_port, launched, serving
from benchmarks.table import markdown_table
from penstock.errors import UserMistake
from penstock.protos.messages import message

ECHO = Path(__file__).parent / "peers" / "servers" / "grpc_aio_echo.py"
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
    with launched([sys.executable, str(ECHO), str(port)]) as process:
        _wait_for(port)
        yield port, process.pid


SERVERS: dict[str, Callable[[], contextlib.AbstractContextManager[tuple[int, int]]]] = {
    "Penstock": penstock,
    "grpc.aio echo": grpc_aio,
}


def _wait_for(port: int) -> None:
    while True:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)


def processor_seconds(pid: int) -> float:
    return processor.parse(Path(f"/proc/{pid}/stat").read_text()).seconds


def h2load(
    url: str, body: Path, fields: Sequence[str], pid: int, seconds: int, flags: Sequence[str], least: int
) -> Round:
    """One round of load. `fields`: the header's. `pid`: the process whose time is measured. `least`: bytes that
    a good answer has; a call of gRPC that failed has none, and h2load takes it for a success."""
    command = ["h2load", f"-D{seconds}", "-t1", "-d", str(body), *flags]
    for field in fields:
        command += ["-H", field]
    before = processor_seconds(pid)
    ran = subprocess.run([*command, url], capture_output=True, text=True, check=True)
    spent = processor_seconds(pid) - before
    done, status = _DONE.search(ran.stdout), _STATUS.search(ran.stdout)
    if done is None or status is None:
        raise UserMistake(f"h2load said something else: {ran.stdout[-300:]}")
    answered, data = int(status[2]), _DATA.search(ran.stdout)
    if data is None or float(data[1]) * _UNITS[data[2]] < 0.9 * least * answered:
        raise UserMistake(f"the answers are too short to be good ones: {ran.stdout[-300:]}")
    return Round(float(done[1]), spent / max(1, answered) * 1e6, int(status[3]))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.grpc_unary", description=__doc__)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--streams", type=int, default=32, help="Calls at once on each connection.")
    options = parser.parse_args(arguments)
    if shutil.which("h2load") is None:
        raise UserMistake("this needs h2load: apt-get install nghttp2-client")
    print(machine.describe())
    rounds: dict[str, list[Round]] = {name: [] for name in SERVERS}
    with tempfile.TemporaryDirectory() as folder:
        body = Path(folder, "body")
        body.write_bytes(framed(TEXT))
        for _ in range(options.rounds):
            for name, start in SERVERS.items():
                with start() as (port, pid):
                    flags = [f"-c{options.connections}", f"-m{options.streams}"]
                    url = f"http://127.0.0.1:{port}{PATH}"
                    rounds[name].append(h2load(url, body, FIELDS, pid, options.seconds, flags, len(TEXT)))
    rows = [
        [
            name,
            f"{median(each.per_second for each in done):,.0f}/s",
            " ".join(f"{each.per_second:,.0f}" for each in done),
            f"{median(each.microseconds for each in done):.0f} µs",
            str(sum(each.failed for each in done)),
        ]
        for name, done in rounds.items()
    ]
    print(
        markdown_table(["unary calls, 2 KB in and out", "median", "rounds", "processor time", "failed"], rows)
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
