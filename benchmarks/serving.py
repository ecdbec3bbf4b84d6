"""A Penstock server of its own for each measurement: fresh, on free ports, and gone afterwards."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

START_SECONDS = 60
STOP_SECONDS = 20

PENSTOCK = (str(Path(sys.executable).with_name("penstock")),)
_BANNER = re.compile(r"serving\s+(http://\S+)/v1/inference\b.*\badmin\s+(http://\S+?)/internal/health")


class DidNotServe(Exception):
    """The server did not start, or did not end well; the message says what it said."""


@dataclass(frozen=True, slots=True)
class Server:
    url: str
    admin: str
    pid: int


@contextlib.contextmanager
def serving(
    target: str,
    *flags: str,
    settings: Mapping[str, str] | None = None,
    program: Sequence[str] = PENSTOCK,
) -> Iterator[Server]:
    """`penstock serve TARGET FLAGS`, once it accepts connections. `settings` are PENSTOCK_… variables.

    It runs where there is no penstock.toml to find, and without the settings this shell may have.
    """
    command = [
        *program,
        "serve",
        target,
        "--port",
        "0",
        "--admin-port",
        "0",
        "--log-level",
        "warning",
        *flags,
    ]
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
        try:
            yield _announced(process, log)
            if process.poll() is not None:
                raise DidNotServe(f"it died under the load: {_last_words(log)}")
        finally:
            _end(process)


def announced(line: str) -> tuple[str, str] | None:
    """The addresses of both planes, if this line of the banner gives them."""
    found = _BANNER.search(line)
    return (found[1], found[2]) if found else None


def _announced(process: subprocess.Popen[str], log: IO[str]) -> Server:
    assert process.stdout is not None
    # A server that neither speaks nor ends is ended, and the reading below with it.
    overdue = threading.Timer(START_SECONDS, process.kill)
    overdue.start()
    try:
        for line in process.stdout:
            addresses = announced(line)
            if addresses is not None:
                return Server(*addresses, process.pid)
    finally:
        overdue.cancel()
    raise DidNotServe(f"it did not start: {_last_words(log)}")


def _end(process: subprocess.Popen[str]) -> None:
    """Politely, then for certain, with everything in its group."""
    assert process.stdout is not None
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


def _environment(settings: Mapping[str, str]) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    return {**inherited, "PYTHONUNBUFFERED": "1", **settings}


def _last_words(log: IO[str]) -> str:
    log.seek(0)
    lines = log.read().strip().splitlines()
    return lines[-1] if lines else "it said nothing"
