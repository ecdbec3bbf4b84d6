"""Starts a Penstock server for one measurement: fresh, on free ports, and gone afterwards. Every benchmark of
`penstock serve` starts its servers so."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

START_SECONDS = 60
STOP_SECONDS = 20

PENSTOCK = (str(Path(sys.executable).with_name("penstock")),)
# Opens URLs directly: the servers are on this machine, and a proxy that the environment names is not for them.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
# The line with which a server says where it serves. A batcher or a worker has no data plane.
_BANNER = re.compile(
    r"(?:serving\s+(http://\S+)/v1/inference\b.*)?\badmin\s+(http://\S+?)/internal/health"
)  # fmt: skip


class DidNotServe(Exception):
    """The server did not start, or did not end well; the message says what it said."""


@dataclass(frozen=True, slots=True)
class Server:
    url: str  # empty where there is no data plane
    admin: str
    pid: int


class Launched:
    """A process that was started for a measurement, and its output."""

    def __init__(self, process: subprocess.Popen[str], log: IO[str]) -> None:
        self._process = process
        self._log = log

    @property
    def pid(self) -> int:
        return self._process.pid

    def server(self, within: float = START_SECONDS) -> Server:
        """Waits until the process has said where it serves."""
        assert self._process.stdout is not None
        # A server that neither speaks nor ends is killed, which also ends the loop below.
        overdue = threading.Timer(within, self._process.kill)
        overdue.start()
        try:
            for line in self._process.stdout:
                addresses = announced(line)
                if addresses is not None:
                    return Server(*addresses, self.pid)
        finally:
            overdue.cancel()
        raise DidNotServe(f"it did not start: {self._last_words()}")

    def still_there(self) -> None:
        if self._process.poll() is not None:
            raise DidNotServe(f"it died under the load: {self._last_words()}")

    def terminate(self) -> None:
        self._process.terminate()

    def end(self) -> None:
        """Ends the process: by SIGTERM first, then by killing its whole group."""
        assert self._process.stdout is not None
        self.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self._process.stdout.close()

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read().strip().splitlines()
        return lines[-1] if lines else "it said nothing"


@contextlib.contextmanager
def launched(command: Sequence[str], settings: Mapping[str, str] | None = None) -> Iterator[Launched]:
    """Starts a process in an empty folder, without a penstock.toml and without this shell's PENSTOCK_ variables."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder, tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=_environment(settings or {}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,  # a group of its own: its children can be ended with it
        )
        started = Launched(process, log)
        try:
            yield started
        finally:
            started.end()


@contextlib.contextmanager
def serving(
    target: str,
    *flags: str,
    settings: Mapping[str, str] | None = None,
    program: Sequence[str] = PENSTOCK,
) -> Iterator[Server]:
    """`penstock serve TARGET FLAGS`, once it accepts connections. `settings` are PENSTOCK_… variables."""
    ports = ("--port", "0", "--admin-port", "0", "--log-level", "warning")
    with launched([*program, "serve", target, *ports, *flags], settings) as process:
        yield process.server()
        process.still_there()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def announced(line: str) -> tuple[str, str] | None:
    """The addresses of both planes, if this line of the banner gives them."""
    found = _BANNER.search(line)
    return (found[1] or "", found[2]) if found else None


def _environment(settings: Mapping[str, str]) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    return {**inherited, "PYTHONUNBUFFERED": "1", **settings}
