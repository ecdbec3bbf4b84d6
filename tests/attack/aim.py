"""What an attack is, and what it has in hand: an address, a key of its own tenant, connections."""

import asyncio
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from stage import SERVED, Stage
from verdict import Verdict
from wire import post

PAUSE = 0.05  # seconds before a client that was cut off, or not let in, comes again
ROOM = 2**22  # bytes of an answer that a connection takes in before it stops reading

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Tally(Counter[str]):
    """Counts, and tells who waits for one that it is no longer zero."""

    def __init__(self) -> None:
        super().__init__()
        self._counted = asyncio.Event()

    def __setitem__(self, name: str, count: int) -> None:
        super().__setitem__(name, count)
        self._counted.set()

    async def has(self, name: str) -> None:
        while not self[name]:
            self._counted.clear()
            await self._counted.wait()


@dataclass(slots=True)
class Aim:
    """The server under attack, as the attacker sees it."""

    url: str
    admin_url: str
    key: str | None = None  # of the attacker's own tenant, where the server asks for keys
    authority: str | None = None  # a file, where the server speaks TLS
    long: bool = False
    grpc: str = ""  # host:port, where the server speaks gRPC without TLS
    redis_url: str = ""  # of an installation, for who can write to its Redis
    tally: Tally = field(default_factory=Tally)  # what was done and what came of it, for the table

    @property
    def proof(self) -> tuple[str, ...]:
        return (f"Authorization: Bearer {self.key}",) if self.key else ()

    def post(
        self, body: bytes, *headers: str, path: str = "/v1/inference", length: int | None = None
    ) -> bytes:
        """A request with the attacker's key. An attacker without a key uses `wire.post`."""
        return post(body, *self.proof, *headers, path=path, length=length)

    async def open(self, protocol: str = "http/1.1", *, admin: bool = False) -> Streams:
        """A new connection, and with TLS one that has agreed on the protocol ("h2")."""
        parts = urlsplit(self.admin_url if admin else self.url)
        assert parts.hostname is not None
        tls = None
        if parts.scheme == "https":
            tls = ssl.create_default_context(cafile=self.authority)
            tls.set_alpn_protocols([protocol])
        self.tally["connections"] += 1
        return await asyncio.open_connection(parts.hostname, parts.port, ssl=tls, limit=ROOM)

    async def ask(self, streams: Streams, request: bytes) -> tuple[int, bytes]:
        """Sends it and reads the answer: its status and body."""
        reader, writer = streams
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split(None, 2)[1])
        size = next(
            (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        self.tally[str(status)] += 1
        return status, await reader.readexactly(size)

    async def crowd(self, number: int, one: Callable[[], Awaitable[object]]) -> None:
        """So many clients at once for as long as the attack lasts. One that is done or was cut off comes again."""

        async def again() -> None:
            while True:
                try:
                    await one()
                except (OSError, EOFError):
                    self.tally["cut off"] += 1
                await asyncio.sleep(PAUSE)

        async with asyncio.TaskGroup() as group:
            for _ in range(number):
                group.create_task(again())


@dataclass(frozen=True, slots=True)
class Attack:
    """`send` goes on until it is cancelled. It runs in a process of its own."""

    name: str
    says: str  # one sentence: who does what
    send: Callable[[Aim], Awaitable[None]]
    stage: Stage = SERVED
    seconds: float = 2.0  # of the short form
    long_seconds: float = 10.0
    keeps: int = 0  # bytes that the server may keep of it, since a bound in the docs says so
    until: str = ""  # what must have been counted before it ends: on a busy machine that may take longer


Withstands = Callable[
    [Attack], Verdict
]  # the fixture: runs the attack, and fails unless the server withstands it
