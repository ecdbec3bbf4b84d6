"""Starts one server of the roster, makes sure that it echoes, and leaves nothing of it behind. `rounds` does so for
each turn."""

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import IO

import psutil

from benchmarks.echo import TEXT
from benchmarks.peers.roster import Peer
from benchmarks.serving import DIRECT

START_SECONDS = 90  # until it must have started
ANSWER_SECONDS = 30  # until it must have echoed
STOP_SECONDS = 10  # to end by itself
TIDY_SECONDS = 10  # for what it started to end, once killed
PR_SET_CHILD_SUBREAPER = 36  # an option of Linux' prctl


class Unfit(Exception):
    """The server did not start, died, or does not echo; the message says which."""


def adopt_orphans() -> None:
    """Makes detached children of servers become children of this process, so that `_end` finds and ends them."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@contextlib.contextmanager
def running(peer: Peer, programs: Path) -> Iterator[str]:
    """The URL of a fresh server that has echoed once; it is gone afterwards, whatever happens."""
    port, spare = _free_ports(2)
    command = [part.format(bin=programs, port=port, spare=spare) for part in peer.command]
    with (
        tempfile.TemporaryFile() as log,
        tempfile.TemporaryDirectory(prefix="peer-", ignore_cleanup_errors=True) as folder,
    ):
        peer.furnish(Path(folder))
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=_environment(peer, programs, folder),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        except OSError as error:
            raise Unfit(f"{command[0]}: {error.strerror}") from error
        url = f"http://127.0.0.1:{port}{peer.path}"
        try:
            _wait_until_it_echoes(peer, url, process, log)
            yield url
            if process.poll() is not None:
                raise Unfit(f"it died under the load: {_last_words(log)}")
        finally:
            _end(process)


def check_echo(peer: Peer, url: str) -> None:
    """Ask once, and insist on the right answer."""
    headers = {"Content-Type": "application/json"}
    headers |= {"Authorization": peer.credentials[0]} if peer.credentials else {}
    question = urllib.request.Request(url, data=peer.payload(), headers=headers, method="POST")
    try:
        with DIRECT.open(question, timeout=ANSWER_SECONDS) as answer:
            text = answer.read()
    except HTTPException as broken:
        raise ConnectionError(f"not an HTTP answer: {broken!r}") from broken
    try:
        echoed = peer.echoed(json.loads(text))
    except (ValueError, LookupError, TypeError) as error:
        raise Unfit(f"its answer has an unknown shape: {text[:80]!r}") from error
    if echoed != TEXT:
        raise Unfit(f"it does not echo: {text[:80]!r}")


def _wait_until_it_echoes(peer: Peer, url: str, process: subprocess.Popen[bytes], log: IO[bytes]) -> None:
    give_up = time.monotonic() + START_SECONDS
    refusal = ""
    while time.monotonic() < give_up:
        if process.poll() is not None:
            raise Unfit(f"it ended with {process.returncode}: {_last_words(log)}")
        try:
            return check_echo(peer, url)
        except OSError as error:  # not listening yet, or listening and not yet ready: URLError is one too
            refusal = str(error)
        time.sleep(0.2)
    raise Unfit(f"no answer within {START_SECONDS} s ({refusal}): {_last_words(log)}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends the server and all its children, also those that left its group: by SIGTERM first, then by a kill."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(STOP_SECONDS)
    # Children that are still tidying up (shared memory, mostly) may finish. Orphans are children of this process
    # now.
    _gone, left = psutil.wait_procs(psutil.Process().children(recursive=True), timeout=TIDY_SECONDS)
    for child in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    psutil.wait_procs(left, timeout=STOP_SECONDS)
    process.wait()


def _environment(peer: Peer, programs: Path, folder: str) -> dict[str, str]:
    """The server's home is `folder`: what it leaves there (caches, sessions, a copy of itself) goes too."""
    path = f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    at_home = {"HOME": folder, "XDG_CACHE_HOME": folder, "TMPDIR": folder}
    return {**os.environ, **at_home, "PATH": path, "PYTHONUNBUFFERED": "1", **peer.environment}


def _free_ports(count: int) -> list[int]:
    """Free ports. All are held until the last is known, so that all differ."""
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def _last_words(log: IO[bytes]) -> str:
    log.seek(0)
    lines = log.read().decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else "it said nothing"
