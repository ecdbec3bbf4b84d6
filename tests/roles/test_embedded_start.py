"""The start of a server that does everything in one process: until it is over, nothing says that it is ready."""

import asyncio
from collections.abc import Sequence

import pytest

from penstock.config import load
from penstock.loops import Loops
from penstock.ports.process import Companion
from penstock.roles.embedded import embedded
from penstock.runtime.embedded_server import COMPANIONS, EmbeddedServer
from redis_servers import becomes


class Held:
    """A companion that opens, or fails, when the test says so."""

    def __init__(self) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self, loops: Loops) -> None:
        await self.opened

    async def close(self) -> None:
        pass


def server_with(companions: Sequence[Companion]) -> EmbeddedServer:
    config = load(None, {}, {"model.target": "sim:0ms"})
    inside = embedded(config, asyncio.get_running_loop()).inside
    assert isinstance(inside, EmbeddedServer)
    inside._companions = companions
    return inside


def test_whatever_keeps_a_companion_from_opening_ends_the_start() -> None:
    async def body() -> None:
        held = Held()
        server = server_with([held])
        server.start()
        held.opened.set_exception(OSError("no descriptor is left"))
        try:
            with pytest.raises(OSError, match="no descriptor is left"):
                async with asyncio.timeout(5.0):
                    await server.started
        finally:
            await server.stop()

    asyncio.run(body())


def test_a_server_whose_companions_are_not_open_is_not_ready() -> None:
    async def body() -> None:
        held = Held()
        server = server_with([held])
        server.start()
        try:
            await becomes(lambda: server._not_started == {COMPANIONS})
            assert server.not_ready() == "starting"
            held.opened.set_result(None)
            await server.started
            assert server.not_ready() == ""
        finally:
            await server.stop()

    asyncio.run(body())
