"""What a request costs that only waits: memory, tasks and timers of a server with 10,000 of them.

    python -m benchmarks.waiting

All connections are opened first and have asked once, so that what a connection costs is told apart from what the
request on it costs. The simulated GPU takes ten minutes: nothing is answered while it is measured.
"""

import argparse
import json
import os
import resource
import select
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from benchmarks.echo import BODY, TEXT
from benchmarks.figure import Check, Figure, Say, at_least_one, conduct, number, options
from benchmarks.serving import DIRECT, Server, serving
from benchmarks.table import markdown_table
from penstock.errors import UserMistake

NAME = "waiting"
CENSUS = (sys.executable, str(Path(__file__).with_name("census.py")))
REQUEST_BYTES = 8 * 1024  # promised: memory of each request that waits, at most
SPARE_FILES = 256  # descriptors besides those of the connections
PATIENCE_SECONDS = 60
SETTINGS = {
    "PENSTOCK_TIMEOUTS_QUEUE": "1h",
    "PENSTOCK_TIMEOUTS_REQUEST": "1h",
    "PENSTOCK_TIMEOUTS_PROCESSING": "1h",
    "PENSTOCK_TIMEOUTS_MAX_CLIENT": "1h",
    "PENSTOCK_LIMITS_IDLE_TIMEOUT": "1h",  # or idle connections would be closed while we count
    "PENSTOCK_LIMITS_MAX_QUEUE": "1000000",
    "PENSTOCK_LIMITS_MAX_QUEUE_BYTES": "8GiB",
    "PENSTOCK_SERVER_DRAIN": "0s",
}


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident bytes of the server's process at four moments."""

    started: int
    connected: int
    waiting: int
    left: int  # after all clients have hung up


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__)
    parser.add_argument("--requests", type=at_least_one, default=10_000)
    return parser.parse_args(argv)


def measure(given: argparse.Namespace, say: Say) -> Figure:
    count: int = given.requests
    raise_file_limit(count + SPARE_FILES)
    with ExitStack() as held:
        pipe = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="census-")), "pipe")
        os.mkfifo(pipe)
        server = held.enter_context(
            serving("sim:600s", settings={**SETTINGS, "CENSUS": str(pipe)}, program=CENSUS)
        )
        process = psutil.Process(server.pid)
        address = _address(server)
        _ask_once(address).close()
        started, before = process.memory_info().rss, census(server.pid, pipe)
        clients = [held.enter_context(_ask_once(address)) for _ in range(count)]
        connected = process.memory_info().rss
        say(f"{count:,} connections: {connected / 2**20:,.0f} MiB")
        question = _question(server)
        for client in clients:
            client.sendall(question)
        _until_waiting(server, count)
        waiting, after = process.memory_info().rss, census(server.pid, pipe)
        say(f"{count:,} requests waiting: {waiting / 2**20:,.0f} MiB")
        for client in clients:
            client.close()
        _until_waiting(server, 0)
        memory = Memory(started, connected, waiting, process.memory_info().rss)
    return figure(count, memory, {kind: after[kind] - before[kind] for kind in after})


def raise_file_limit(needed: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise UserMistake(
            f"not measured: {needed:,} open files are needed and {hard:,} allowed; "
            f"raise the limit (ulimit -Hn) or lower --requests"
        )
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _address(server: Server) -> tuple[str, int]:
    parts = urlsplit(server.url)
    assert parts.hostname is not None
    assert parts.port is not None
    return parts.hostname, parts.port


def _ask_once(address: tuple[str, int]) -> socket.socket:
    """A connection that has been used once: it has asked for a path that is not there."""
    client = socket.create_connection(address, timeout=PATIENCE_SECONDS)
    client.sendall(b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n")
    if not client.recv(65536).startswith(b"HTTP/1.1 404"):
        raise RuntimeError("the server did not answer 404 to a path that it does not serve")
    return client


def _question(server: Server) -> bytes:
    head = (
        f"POST /v1/inference HTTP/1.1\r\nHost: {urlsplit(server.url).netloc}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(BODY)}\r\n\r\n"
    )
    return head.encode() + BODY


def _until_waiting(server: Server, count: int) -> None:
    give_up = time.monotonic() + PATIENCE_SECONDS
    waiting = -1
    while time.monotonic() < give_up:
        with DIRECT.open(f"{server.admin}/internal/health", timeout=PATIENCE_SECONDS) as answer:
            waiting = json.load(answer)["waiting_clients"]
        if waiting == count:
            return
        time.sleep(0.1)
    raise RuntimeError(f"{waiting:,} requests are waiting instead of {count:,}")


def census(pid: int, pipe: Path) -> dict[str, int]:
    """Ask the server to count its tasks and timers."""
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.kill(pid, signal.SIGUSR1)
        ready = select.poll()  # select() knows only the first 1,024 files
        ready.register(reader, select.POLLIN)
        if not ready.poll(PATIENCE_SECONDS * 1000):
            raise RuntimeError("the server did not count its tasks")
        counts: dict[str, int] = json.loads(os.read(reader, 65536))
        return counts
    finally:
        os.close(reader)


def figure(count: int, memory: Memory, grown: dict[str, int]) -> Figure:
    connection = (memory.connected - memory.started) / count
    request = (memory.waiting - memory.connected) / count
    beyond = request - len(TEXT)
    rows = [
        ["started", _mib(memory.started), ""],
        [f"{count:,} idle connections", _mib(memory.connected), f"{number(connection)} each"],
        [f"{count:,} requests waiting on them", _mib(memory.waiting), f"{number(request)} each, more"],
        ["all clients gone", _mib(memory.left), ""],
    ]
    kinds = [[kind, f"{more:,}", f"{more / count:.3f}"] for kind, more in grown.items()]
    return Figure(
        title="Waiting is cheap",
        method=(
            f"{count:,} connections, one request of {len(TEXT):,} characters waiting on each; resident memory "
            "of the server's process, and its live objects by kind."
        ),
        tables=[
            markdown_table(["moment", "resident MiB", "bytes"], rows),
            markdown_table(["made by the waiting", "in all", "per request"], kinds),
        ],
        checks=[
            Check("memory of a waiting request beyond its payload", beyond, REQUEST_BYTES, "bytes"),
            Check("timers for each waiting request", grown["TimerHandle"] / count, 0.01, ""),
        ],
        data={"requests": count, "memory": asdict(memory), "grown": grown, "bytes_beyond_payload": beyond},
    )


def _mib(resident: int) -> str:
    return f"{resident / 2**20:,.1f}"


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
