"""A fixed HTTP endpoint that misbehaves on request: `python endpoints.py JOURNAL`, which prints its port.

POST /batch     {"inputs": […]} → {"outputs": […]}, in the manner last set; every batch is written down;
                with an input `hang:…` it hangs in any case
POST /manner    the name of a manner, below
GET  /open      how many connections it has open, this one included

Manners: good 500 garbage short long half-close reset · hang trickle (these two go on until they are cut off)
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from functions import answer_to

BROKEN = "500", "garbage", "short", "long", "half-close", "reset"
ENDLESS = "hang", "trickle"


class Endpoint:
    def __init__(self, journal: str) -> None:
        self._journal = journal
        self._manner = "good"
        self._open = 0
        self._connections = 0

    def note(self, event: str, connection: int, inputs: list[str]) -> None:
        entry = {"event": event, "at": time.monotonic(), "pid": connection, "inputs": inputs}
        with Path(self._journal).open("a") as file:
            file.write(json.dumps(entry) + "\n")

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        self._connections += 1
        number = self._connections
        try:
            while head := await read_head(reader):
                method, path, length = head
                body = await reader.readexactly(length)
                if path == "/open":
                    writer.write(response(str(self._open).encode()))
                elif path == "/manner":
                    self._manner = body.decode()
                    writer.write(response(b"ok"))
                elif method == "POST":
                    await self._batch(json.loads(body)["inputs"], number, reader, writer)
                else:
                    writer.write(response(b"ok"))
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the other side hung up, which is what is being tested
        finally:
            self._open -= 1
            writer.close()

    async def _batch(
        self, inputs: list[str], number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        manner = "hang" if any(text.startswith("hang:") for text in inputs) else self._manner
        self.note("begin", number, inputs)
        try:
            outputs = [answer_to(text) for text in inputs]
            good = response(json.dumps({"outputs": outputs}).encode())
            match manner:
                case "500":
                    writer.write(response(b"out of order", "500 Internal Server Error"))
                case "garbage":
                    writer.write(response(b'{"outputs": [\xff\x00'))
                case "short":
                    writer.write(response(json.dumps({"outputs": outputs[1:]}).encode()))
                case "long":
                    writer.write(response(json.dumps({"outputs": [*outputs, "one more"]}).encode()))
                case "half-close":
                    writer.write(good[:-4])
                    writer.write_eof()
                case "reset":
                    writer.transport.abort()
                case "hang":
                    await reader.read()  # until the other side has had enough
                case "trickle":
                    await trickle(good, writer)
                case _:
                    writer.write(good)
        finally:
            self.note("end", number, inputs)


async def trickle(content: bytes, writer: asyncio.StreamWriter) -> None:
    """A byte now and then, never the last one."""
    writer.write(content[:-1000] if len(content) > 1000 else content[:20])
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.02)


def response(content: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(content)}\r\n\r\n".encode() + content


async def read_head(reader: asyncio.StreamReader) -> tuple[str, str, int] | None:
    try:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    except asyncio.IncompleteReadError:
        return None
    method, path, _ = lines[0].split(" ")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
    return method, path, int(headers.get("content-length", 0))


async def main(journal: str) -> None:
    server = await asyncio.start_server(Endpoint(journal).talk, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


class Handle:
    """The endpoint's process, as a test holds it."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/batch"

    def _ask(self, method: str, path: str, body: str = "") -> str:
        from http.client import HTTPConnection

        connection = HTTPConnection(urlsplit(self.url).netloc, timeout=60)
        try:
            connection.request(method, path, body)
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def behave(self, manner: str) -> None:
        assert self._ask("POST", "/manner", manner) == "ok"

    @property
    def connections(self) -> int:
        """Open ones, but for our own."""
        return int(self._ask("GET", "/open")) - 1


@contextmanager
def endpoint(journal: Path) -> Iterator[Handle]:
    with subprocess.Popen(
        [sys.executable, __file__, str(journal)], stdout=subprocess.PIPE, text=True, env=dict(os.environ)
    ) as process:
        assert process.stdout is not None
        try:
            yield Handle(int(process.stdout.readline()))
        finally:
            process.kill()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(sys.argv[1]))
