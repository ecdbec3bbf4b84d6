"""A real PostgreSQL for tests: on a free port, in a directory that goes away, and to be hurt."""

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import asyncpg
import psutil
from benchmarks.postgres import data_directory, programs

from own_ports import free_port

_START_WITHIN = 60.0


def _lives(process: psutil.Process) -> bool:
    """One that is dead may lie about until the system's first process has taken note of it."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


class PostgresServer:
    """The port and the data outlive `kill` and `start`."""

    def __init__(self, directory: Path, own_disk: bool) -> None:
        """`own_disk`: the directory is one, and small."""
        self._own_disk = own_disk
        self._ballast = directory / "ballast"
        self._data, self._as = data_directory(directory)
        self._process: subprocess.Popen[bytes] | None = None
        subprocess.run(
            [programs() / "initdb", "-D", self._data, "-A", "trust", "-U", "postgres", "-E", "utf8",
             "--locale=C", "--no-sync", "--wal-segsize=1"],
            check=True, stdout=subprocess.DEVNULL, **self._as,
        )  # fmt: skip
        self._port = free_port()  # not before: somebody else may take it meanwhile
        self.url = f"postgresql://postgres@127.0.0.1:{self._port}/postgres"

    def execute(self, statement: str) -> None:
        async def execute() -> None:
            connection = await asyncpg.connect(self.url)
            try:
                await connection.execute(statement)
            finally:
                await connection.close()

        asyncio.run(execute())

    def fresh(self) -> str:
        """The URL of an empty schema."""
        name = f"test_{uuid4().hex[:8]}"
        self.execute(f"CREATE SCHEMA {name}")
        return f"{self.url}?search_path={name}"

    def start(self) -> None:
        self._process = subprocess.Popen(
            [programs() / "postgres", "-D", self._data, "-h", "127.0.0.1", "-p", str(self._port), "-k", "",
             "-c", "shared_buffers=8MB", "-c", "max_connections=20", "-c", "autovacuum=off",
             "-c", "fsync=off"],  # a process that is killed takes nothing from the system's cache
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self._as,
        )  # fmt: skip
        ends = time.monotonic() + _START_WITHIN
        while not self._answers():
            assert self._process.poll() is None, "the server ended at once"
            assert time.monotonic() < ends, "the server did not answer in time"
            time.sleep(0.02)

    def _answers(self) -> bool:
        asked = [str(programs() / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self._port)]
        return subprocess.run(asked, check=False).returncode == 0

    def _processes(self) -> list[psutil.Process]:
        assert self._process is not None
        first = psutil.Process(self._process.pid)
        return [first, *first.children(recursive=True)]

    def _signal(self, kind: signal.Signals) -> None:
        """The first one first, and then its children as they are by then: one that was born meanwhile would go on
        although all others have stopped."""
        self._processes()[0].send_signal(kind)
        for process in self._processes()[1:] + self._processes()[1:]:
            try:
                process.send_signal(kind)
            except psutil.NoSuchProcess:
                pass  # a session that has just ended

    def kill(self) -> None:
        """All of it at once, as when the machine dies: what was under way is torn in the middle."""
        self._signal(signal.SIGSTOP)  # so that none sees another die
        processes = self._processes()
        for process in processes:
            process.kill()
        assert self._process is not None
        self._process.wait()
        self._process = None
        while any(_lives(process) for process in processes):
            time.sleep(0.005)

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def fill(self, largest_file: int) -> None:
        """No file can grow beyond this: to a session that writes, the disk is full."""
        self._limit(f"{largest_file}:unlimited")

    def make_room(self) -> None:
        self._limit("unlimited")

    def fill_disk(self) -> None:
        """To the last byte, where it has a disk of its own; elsewhere its files cannot grow any more."""
        if not self._own_disk:
            self.fill(largest_file=8192)
            return
        with self._ballast.open("wb", buffering=0) as file, suppress(OSError):
            for size in (2**20, 4096):
                with suppress(OSError):
                    while file.write(bytes(size)) == size:
                        pass

    def empty_disk(self) -> None:
        """It may have ended meanwhile: without room for its journal a server gives up."""
        assert self._process is not None
        if self._own_disk:
            self._ballast.unlink()
        elif self._process.poll() is None:
            self.make_room()
        ends = time.monotonic() + _START_WITHIN
        while not self._answers():
            if self._process.poll() is not None:
                self.start()
            assert time.monotonic() < ends, "the server did not come back"
            time.sleep(0.02)

    def _limit(self, largest_file: str) -> None:
        self._limit_one(self._processes()[0], largest_file)  # whose later children inherit it
        for process in self._processes()[1:]:
            self._limit_one(process, largest_file)

    def _limit_one(self, process: psutil.Process, largest_file: str) -> None:
        asked = ["prlimit", "--pid", str(process.pid), f"--fsize={largest_file}"]
        done = subprocess.run(asked, check=False, stderr=subprocess.DEVNULL, **self._as)
        assert done.returncode == 0 or not _lives(process), "the limit could not be set"

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()


@contextmanager
def postgres_server(disk: int | None = None) -> Iterator[PostgresServer]:
    """With a disk of so many bytes to itself, where this user may mount one."""
    directory = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
    own_disk = disk is not None and _mounted(directory, disk)
    try:
        server = PostgresServer(directory, own_disk)
        try:
            server.start()
            yield server
        finally:
            server.stop()
    finally:
        if own_disk:
            subprocess.run(["umount", directory], check=True)
        shutil.rmtree(directory)


def _mounted(directory: Path, size: int) -> bool:
    asked = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)]
    return os.geteuid() == 0 and subprocess.run(asked, check=False, capture_output=True).returncode == 0
