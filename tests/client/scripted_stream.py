"""A WebSocket server in the test's own process that answers with what was asked, and whose handshake ends when the
test says so."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from scripted_server import good
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol


@dataclass
class Stream:
    shakes: asyncio.Event = field(default_factory=asyncio.Event)  # handshakes are answered when this is set
    greeting: bytes = b""  # a message that comes with the end of the handshake
    leaves: bool = False  # says that it closes instead of answering, and does not
    url: str = ""
    connections: int = 0
    asked: asyncio.Event = field(default_factory=asyncio.Event)  # set by each handshake
    inputs: list[object] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        protocol = ServerProtocol()
        while data := await reader.read(1 << 16):
            protocol.receive_data(data)
            for event in protocol.events_received():
                if isinstance(event, Request):
                    self.asked.set()
                    await self.shakes.wait()
                    protocol.send_response(protocol.accept(event))
                    if self.greeting:
                        protocol.send_text(self.greeting)
                elif isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                    self._take(protocol, json.loads(bytes(event.data)))
            told = protocol.data_to_send()
            writer.write(b"".join(told))
            if b"" in told and not self.leaves:  # the end
                return

    def _take(self, protocol: ServerProtocol, said: dict[str, object]) -> None:
        if "input" not in said:
            return
        self.inputs.append(said["input"])
        if self.leaves:
            protocol.send_close(1001)
        else:
            protocol.send_text(
                json.dumps({**json.loads(good(said["input"]).body), "id": said["id"]}).encode()
            )


@asynccontextmanager
async def streaming(
    *, shakes: bool = True, greeting: bytes = b"", leaves: bool = False
) -> AsyncIterator[Stream]:
    server = Stream(greeting=greeting, leaves=leaves)
    if shakes:
        server.shakes.set()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await server.serve(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()
    server.url = f"http://{host}:{port}"
    try:
        yield server
    finally:
        listening.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
