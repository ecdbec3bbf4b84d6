"""Binds sockets, accepts connections, and gives them to the edges of the data plane and of the admin plane.
`life.py` opens and closes them; no other file binds a socket that clients connect to. `roles/up.py` tries with
`bind` whether ports are free."""

import asyncio
import ctypes
import gc
import socket
import sys
from math import ceil

from starlette.applications import Starlette

from penstock.admin.guard import Guard
from penstock.config import Config
from penstock.edge.edge import Edge, EdgeLimits
from penstock.edge.tls import AdminTls, ServerTls, Tls
from penstock.errors import UserMistake
from penstock.server.admin_plane import MOST_CONNECTIONS, AdminEdge, AdminPlane
from penstock.server.descriptors import raise_limit

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of glibc's mallopt
ADMIN_BODY = 64 * 1024  # bytes; no request to the admin plane needs a body
TAKEN_ALONG = 15  # further connections that are accepted along with one, at most, in one turn of the loop
LOOK = 0.01  # seconds between two looks at whether all clients have gone, when a server ends
LAST_WORDS = 0.5  # seconds for clients to notice that their connection has ended


def bind(host: str, port: int, flag: str) -> socket.socket:
    """Returns a bound socket; port 0 finds a free port. Raises UserMistake that names the option `flag`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as exc:
        bound.close()
        raise UserMistake(
            f"cannot listen on {host}:{port}: {exc.strerror}; choose another with {flag}"
        ) from None
    return bound


def url_of(bound: socket.socket, tls: Tls | None, scheme: str = "http") -> str:
    """Returns the URL of a bound socket. `scheme`: without TLS."""
    host, port = bound.getsockname()[:2]
    scheme = scheme if tls is None else f"{scheme}s"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class DataListener:
    """One port: accepts connections and gives them to an edge.

    libuv accepts only one new connection in each turn of its loop (libuv#3696). If a thousand clients keep the loop
    busy, a turn can take 40 ms, so that no more than 25 new connections a second would get in. So when one comes,
    others that wait are accepted along with it.
    """

    def __init__(self, edge: Edge, bound: socket.socket, scheme: str = "http") -> None:
        self.url = url_of(bound, edge.tls, scheme)
        self.beside: DataListener | None = None  # for gRPC; it starts and ends with this one
        self._edge = edge
        self._bound = bound
        self._backlog = min(edge.limits.max_connections, 65535)
        self._server: asyncio.Server | None = None
        self._taking: set[asyncio.Task[None]] = set()  # each gives one connection to the edge
        self._closed = False  # whether connections that are still coming are closed at once

    async def start(self) -> None:
        """Begins to accept connections."""
        loop = asyncio.get_running_loop()
        self._edge.reads.open()
        self._server = await loop.create_server(
            self._with_all_who_wait, sock=self._bound, backlog=self._backlog
        )
        if self._edge.tls is not None:
            self._edge.tls.start()
        if self.beside is not None:
            await self.beside.start()

    def _with_all_who_wait(self) -> asyncio.BaseProtocol:
        self._take_along(TAKEN_ALONG)
        return self._edge()

    def _take_along(self, most: int) -> None:
        """Accepts connections that wait, `most` at most."""
        for _ in range(most):
            try:
                connection, _address = self._bound.accept()
            except OSError:  # no other connection waits, or no descriptor is left, which libuv handles
                break
            task = asyncio.create_task(self._take(connection))
            self._taking.add(task)
            task.add_done_callback(self._taking.discard)

    async def _take(self, connection: socket.socket) -> None:
        try:
            transport, _ = await asyncio.get_running_loop().connect_accepted_socket(self._edge, connection)
        except OSError:  # the client has gone again
            connection.close()
            return
        if self._closed:
            transport.close()

    @property
    def dead(self) -> bool:
        """Whether the port accepts nothing although nobody has closed it."""
        tls = self._edge.tls
        if self.beside is not None and self.beside.dead:
            return True
        return self._server is not None and (not self._server.is_serving() or (tls is not None and tls.dead))

    async def finish(self, seconds: float) -> None:
        """Accepts no connection any more. Idle clients may still send a request that is on its way; after `seconds`
        their connections are closed."""
        beside = None if self.beside is None else asyncio.ensure_future(self.beside.finish(seconds))
        self._stop_listening()
        self._edge.retire()
        await self._until_all_left(seconds)
        self._edge.finish()
        await self._until_all_left(LAST_WORDS)
        if beside is not None:
            await beside

    async def _until_all_left(self, seconds: float) -> None:
        for _ in range(ceil(seconds / LOOK)):
            if not self._taking and not self._edge.connections:
                return
            await asyncio.sleep(LOOK)

    def _stop_listening(self) -> None:
        """Accepts the clients that have connected by now, because closing the socket would cut them off. Then
        stops."""
        if self._server is not None:
            self._take_along(self._backlog)
            self._server.close()
            self._server = None
        self._bound.close()

    def close(self) -> None:
        """Ends the port and all its connections at once."""
        if self.beside is not None:
            self.beside.close()
        self._closed = True
        self._stop_listening()
        self._edge.close()
        if self._edge.tls is not None:
            self._edge.tls.close()


class AdminListener(DataListener):
    """The port of the admin plane."""

    def __init__(
        self,
        app: Starlette,
        bound: socket.socket,
        config: Config,
        loop: asyncio.AbstractEventLoop,
        tls: ServerTls | None = None,
    ) -> None:
        server, limits = config.server, config.limits
        guard = Guard(server.admin_host, server.admin_hosts, server.admin_token)
        edge_limits = EdgeLimits(
            ADMIN_BODY, MOST_CONNECTIONS, limits.header_timeout, limits.body_timeout, limits.idle_timeout
        )
        admin_tls = None if tls is None else AdminTls(tls)
        super().__init__(AdminEdge(AdminPlane(app, guard), edge_limits, loop, loop.time, admin_tls), bound)


def tune_process() -> None:
    """Sets up the process for a server that makes many short-lived objects."""
    raise_limit()
    # Requests make no cycles, and what exists by now stays. So the cycle collector runs seldom and skips the
    # latter.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    # Freed memory is kept for the next batch, rather than given back to the kernel and faulted in again.
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.mallopt(M_TRIM_THRESHOLD, 256 * 2**20)
        libc.mallopt(M_MMAP_THRESHOLD, 64 * 2**20)
        libc.mallopt(M_ARENA_MAX, 1)
