"""1 GB bodies, a gzip bomb, JSON 100,000 deep and a crowd of slow clients: cut off, and nobody else notices."""

import asyncio
import gzip
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from server import Server, eventually, running
from slow_crowd import crowd
from wire import listen, post, talk

LIMIT = 2**20  # the default max_body
ALLOWANCE = 64 * 1024
GIGABYTE = 10**9
STEP = 16 * 1024
CHUNKED = b"POST /v1/inference HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = b"%x\r\n%s\r\n" % (STEP, b"x" * STEP)
JSON_MODEL = "[models.any]\ntarget = 'sim:1ms'\ninput = 'json'\noutput = 'json'"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running("sim:20ms", "--workers", "2") as server:
        server.post("/v1/inference", {"input": "warm"})
        yield server


def unread(server: Server, connection: socket.socket) -> int | None:
    """Bytes that have reached the server's end of this connection and are not read yet; None once it is closed."""
    ends = f":{server.address[1]:04X} ", f":{connection.getsockname()[1]:04X} 01 "  # 01: established
    for line in Path("/proc/net/tcp").read_text().splitlines():
        if ends[1] in line and ends[0] in line[:40] and line.index(ends[0]) < line.index(ends[1]):
            return int(line.split()[4].split(":")[1], 16)
    return None


def read_by_server(server: Server, head: bytes, step: bytes) -> int:
    """How much of a body the server reads before it cuts the connection.

    In lockstep: the next piece is sent only when the last has been read, so that what lies in the buffers of
    either kernel is not mistaken for what was read.
    """
    with socket.create_connection(server.address, timeout=60) as connection:
        connection.sendall(head)
        sent = 0
        try:
            while sent <= LIMIT * 4:
                connection.sendall(step)
                sent += len(step)
                end = time.monotonic() + 2
                while (left := unread(server, connection)) and time.monotonic() < end:
                    pass  # a look at the kernel's table takes long enough
                if left is None or left > 0:  # closed, or it has stopped reading
                    return sent - (left or 0)
        except (BrokenPipeError, ConnectionResetError):
            pass
        return sent


@contextmanager
def someone_else(server: Server) -> Iterator[list[float]]:
    """A client that asks all the while, and must always be answered."""
    seconds: list[float] = []
    over = threading.Event()
    statuses = set()

    def ask() -> None:
        while not over.is_set():
            began = time.monotonic()
            statuses.add(server.post("/v1/inference", {"input": "me too"}).status)
            seconds.append(time.monotonic() - began)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield seconds
    finally:
        over.set()
        thread.join()
    assert statuses == {200}


def p99(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99)]


def most_memory(server: Server) -> int:
    """The most it has ever held, in bytes."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


@pytest.mark.parametrize(
    ("head", "step"),
    [(post(b"", length=GIGABYTE), b"x" * STEP), (CHUNKED, CHUNK)],
    ids=["declared", "chunked"],
)
def test_of_a_body_without_end_no_more_is_read_than_the_limit(
    server: Server, head: bytes, step: bytes
) -> None:
    with someone_else(server):
        assert read_by_server(server, head, step) <= LIMIT + ALLOWANCE


@pytest.mark.parametrize(
    ("head", "step"),
    [(post(b"", length=GIGABYTE), b"x" * STEP), (CHUNKED, CHUNK)],
    ids=["declared", "chunked"],
)
def test_a_gigabyte_at_full_speed_is_cut_off_and_not_kept(server: Server, head: bytes, step: bytes) -> None:
    before = most_memory(server)
    with someone_else(server), socket.create_connection(server.address, timeout=60) as connection:
        sent = 0
        try:
            connection.sendall(head)
            while sent < GIGABYTE:
                connection.sendall(step)
                sent += len(step)
        except ConnectionError:
            pass
        assert sent < GIGABYTE // 20, "most of it never left: the rest stood in the buffers of the kernels"
        assert listen(connection).closed
    assert most_memory(server) - before < 16 * 2**20


def test_a_gzip_bomb_is_not_opened(server: Server) -> None:
    bomb = gzip.compress(b'{"input": "' + b"0" * 10**8 + b'"}')
    assert len(bomb) < LIMIT
    before = most_memory(server)
    for answer in (
        server.post("/v1/inference", bomb, {"content-encoding": "gzip"}),
        server.post("/v1/inference", bomb, {"content-type": "application/gzip"}),
    ):
        assert answer.status == 415
    assert server.post("/v1/inference", bomb).status in (400, 422)
    coded = CHUNKED.replace(b"chunked", b"gzip, chunked\r\nConnection: close") + b"%x\r\n%s\r\n0\r\n\r\n" % (
        len(bomb),
        bomb,
    )
    assert talk(server.address, coded).statuses == [501]
    assert most_memory(server) - before < 16 * 2**20


@pytest.mark.parametrize("config", [None, JSON_MODEL], ids=["text", "json"])
def test_json_100_000_deep_is_refused_wherever_it_stands(config: str | None) -> None:
    deep = [b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000 + b"1" + b"}" * 100_000, b"[" * 100_000]
    with running(None if config else "sim:1ms", config=config) as server:
        for nest in deep:
            for body in (b'{"input": %s}', b'{"input": "a", "parameters": {"p": %s}}', b'{"x": %s}', b"%s"):
                assert server.post("/v1/inference", body % nest).status in (400, 422)
        assert "Traceback" not in server.stderr()
        assert server.post("/v1/inference", {"input": "a"}).status == 200


@pytest.mark.timeout(300)
def test_slow_clients_are_closed_and_cost_the_others_nothing(chaos_long: bool, chaos_seed: int) -> None:
    number = 2000 if chaos_long else 200
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with running("sim:50ms", "--workers", "2") as server:
        process = psutil.Process(server.process.pid)
        with someone_else(server) as alone:
            eventually(lambda: len(alone) >= (100 if chaos_long else 20), seconds=60)
        descriptors = process.num_fds()

        async def suffer() -> list[float]:
            return list(await asyncio.gather(*crowd(server.address, number)))

        with someone_else(server) as beside:
            patience = asyncio.run(suffer())
        assert len(patience) == number
        assert max(patience) <= 10.0
        if chaos_long:
            assert p99(beside) <= 1.5 * p99(alone), (p99(beside), p99(alone))
        eventually(lambda: process.num_fds() <= descriptors, 60.0)
        health = server.health()
        assert (health["queue_depth"], health["waiting_clients"]) == (0, 0)
        assert "Traceback" not in server.stderr()
