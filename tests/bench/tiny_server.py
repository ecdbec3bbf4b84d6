"""A real HTTP server of a few lines, on a thread of its own, that answers as a test tells it to."""

import asyncio
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import httptools


def answer_body(batch_size: int = 1) -> bytes:
    metadata = {"queue_ms": 1.0, "inference_ms": 2.0, "batch_size": batch_size, "cached": False}
    fields = {"request_id": "r", "output": 'says "batch_size":99', "latency_ms": 3.0, "metadata": metadata}
    return json.dumps(fields, separators=(",", ":")).encode()


@dataclass(slots=True, frozen=True)
class Ask:
    number: int  # of all requests so far, from 0
    path: str
    body: bytes


@dataclass(slots=True, frozen=True)
class Answer:
    status: int = 200
    body: bytes = answer_body()
    delay: float = 0.0
    close: bool = False  # after the answer, without a word beforehand
    silent: bool = False  # never answer
    hang_up: bool = False  # close instead of answering
    last: bool = False  # stop listening, and hang up on everyone


class TinyServer:
    def __init__(self, respond: Callable[[Ask], Answer] = lambda ask: Answer()) -> None:
        self.respond = respond
        self.asks: list[Ask] = []
        self.connections = 0
        self.open: set[asyncio.Transport] = set()
        self._up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self) -> "TinyServer":
        self._thread.start()
        self._up.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def go_away(self) -> None:
        self.listener.close()
        for transport in list(self.open):
            transport.abort()

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self.listener = await self.loop.create_server(lambda: _Peer(self), "127.0.0.1", 0, backlog=1024)
        self.port = self.listener.sockets[0].getsockname()[1]
        self._up.set()
        await self._stop.wait()
        self.listener.close()
        if others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)  # whoever was just let in becomes a peer, and can be hung up on
        self.go_away()
        await asyncio.sleep(0)


class _Peer(asyncio.Protocol):
    def __init__(self, server: TinyServer) -> None:
        self.server = server
        self.parser = httptools.HttpRequestParser(self)
        self.path, self.body = "", b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.server.connections += 1
        self.server.open.add(self.transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.open.discard(self.transport)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.path, self.body = url.decode(), b""

    def on_body(self, part: bytes) -> None:
        self.body += part

    def on_message_complete(self) -> None:
        ask = Ask(len(self.server.asks), self.path, self.body)
        self.server.asks.append(ask)
        answer = self.server.respond(ask)
        if answer.last:
            self.server.go_away()
        elif answer.hang_up:
            self.transport.close()
        elif not answer.silent:
            self.server.loop.call_later(answer.delay, self._answer, answer)

    def _answer(self, answer: Answer) -> None:
        head = f"HTTP/1.1 {answer.status} X\r\nContent-Length: {len(answer.body)}\r\n\r\n".encode()
        self.transport.write(head + answer.body)
        if answer.close:
            self.transport.close()
