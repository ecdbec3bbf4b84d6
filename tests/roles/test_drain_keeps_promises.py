"""A server that stops loses no request of a client that keeps its connection."""

import asyncio
import signal
from urllib.parse import urlsplit

import pytest

from server import Server, running
from wire import post

CLIENTS = 60
ASK = post(b'{"input": "hello"}')


class Steady:
    """Asks again and again on one connection, until it is told that the connection ends."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.lost = 0
        self.told = False  # that the connection ends, with an answer
        self.statuses: set[int] = set()

    async def ask(self, server: Server, pause: float) -> None:
        parts = urlsplit(server.url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        while not self.told:
            await asyncio.sleep(pause)
            if reader.at_eof():
                return  # it was ended between two requests, and nothing was lost
            try:
                writer.write(ASK)
                head = await reader.readuntil(b"\r\n\r\n")
                size = next(
                    int(line[16:]) for line in head.split(b"\r\n") if line.startswith(b"content-length: ")
                )
                await reader.readexactly(size)
            except (OSError, EOFError):
                self.lost += 1
                return
            self.begun.set()
            self.statuses.add(int(head.split()[1]))
            self.told = b"connection: close" in head
        assert await reader.read() == b""
        writer.close()


@pytest.mark.parametrize("pause", [0.0, 0.02, 0.3])
def test_whoever_keeps_its_connection_gets_an_answer_to_all_it_sent(pause: float) -> None:
    with running("sim:1ms", "--workers", "2") as server:
        clients = [Steady() for _ in range(CLIENTS)]

        async def body() -> None:
            asking = [asyncio.create_task(client.ask(server, pause)) for client in clients]
            async with asyncio.timeout(60.0):
                await asyncio.gather(*(client.begun.wait() for client in clients))
                server.process.send_signal(signal.SIGTERM)
                await asyncio.gather(*asking)

        asyncio.run(body())
        assert server.process.wait(60) == 0
    assert sum(client.lost for client in clients) == 0
    assert all(client.told for client in clients)
    assert {status for client in clients for status in client.statuses} <= {200, 503}


def test_an_idle_connection_is_closed_in_order_and_does_not_hold_the_server_up() -> None:
    async def body(server: Server) -> bytes:
        parts = urlsplit(server.url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        server.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60.0):
            rest = await reader.read()
        writer.close()
        return rest

    with running("sim:1ms") as server:
        assert asyncio.run(body(server)) == b""
        assert server.process.wait(60) == 0
