"""Listening: Granian's embedded server inside our own loop, for the data plane and for the admin plane."""

import asyncio
import ctypes
import gc
import resource
import socket
import sys
from typing import Any

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.server.embed import Server

from penstock.errors import UserMistake
from penstock.roles.rsgi import spawn_rsgi

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of glibc's mallopt


class Listener:
    """One application on one port."""

    def __init__(
        self,
        app: Any,
        interface: Interfaces,
        host: str,
        port: int,
        *,
        connections: int,
        header_timeout: float,
    ) -> None:
        self.host = host
        self.port = port
        self._interface = interface
        # Granian leaves connections beyond `backpressure` hanging unanswered: it is set far above our own
        # limits, so that overload is answered by us, with a 503.
        self._server = Server(
            app,
            address=host,
            port=port,
            interface=interface,
            backlog=min(connections, 65535),
            backpressure=connections,
            http=HTTPModes.http1,  # in auto mode a connection that sends nothing is never closed
            http1_settings=HTTP1Settings(header_read_timeout=round(header_timeout * 1000)),
            websockets=False,
            log_enabled=False,
        )
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def start(self) -> None:
        spawn: Any = spawn_rsgi if self._interface == Interfaces.RSGI else None
        serving = self._server.serve(spawn_target=spawn)
        self._task = asyncio.create_task(serving, name=f"listener {self.url}")

    @property
    def dead(self) -> bool:
        return self._task is not None and self._task.done()

    async def stop(self, seconds: float = 5.0) -> None:
        if self._task is not None and not self._task.done():
            self._server.stop()  # type: ignore[no-untyped-call]
            await asyncio.wait([self._task], timeout=seconds)


def claim_port(host: str, port: int, flag: str) -> int:
    """Check that nobody listens there; port 0 finds a free one.

    Granian binds with SO_REUSEPORT, so a second server on the port would go unnoticed and take half of the
    connections; a plain bind first is refused as it should be.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            return int(probe.getsockname()[1])
        except OSError as exc:
            raise UserMistake(
                f"cannot listen on {host}:{port}: {exc.strerror}; choose another with {flag}"
            ) from None


def tune_process() -> None:
    """What a server of many short-lived objects wants of its process."""
    # A waiting client is a file descriptor: take as many as we may.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # Requests make no cycles; what is there by now stays. Looking through everything often buys nothing.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    # Keep freed memory for the next batch rather than give it back to the kernel and fault it in again.
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.mallopt(M_TRIM_THRESHOLD, 256 * 2**20)
        libc.mallopt(M_MMAP_THRESHOLD, 64 * 2**20)
        libc.mallopt(M_ARENA_MAX, 1)
