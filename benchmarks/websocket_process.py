"""Load over WebSocket: `python -m benchmarks.websocket_process URL CONNECTIONS ASKS SECONDS <TEXT`.

`benchmarks.websocket` starts it. On each connection so many asks are in flight; each is sent anew as soon as it is
answered. All frames are made beforehand. Prints the fields of a `wrk.Measurement` as JSON.
"""

import asyncio
import gc
import json
import os
import sys
import time
from typing import cast
from urllib.parse import urlsplit

import uvloop
from websockets.frames import Frame, Opcode

ID = len(b'{"id":')
FAILED = b',"error'
LONG, LONGER = 126, 127  # lengths that stand for those in the bytes after them


class Counts:
    def __init__(self) -> None:
        self.over = False
        self.answers = self.bad_status = self.socket_errors = 0


class Asker(asyncio.Protocol):
    """One connection, which asks again as soon as it is answered."""

    def __init__(self, wish: bytes, asks: dict[bytes, bytes], counts: Counts) -> None:
        self._wish, self._asks, self._counts = wish, asks, counts
        self._rest = b""
        self._switched = False
        self._transport: asyncio.Transport
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._wish)

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        if not self._switched:
            head, found, data = data.partition(b"\r\n\r\n")
            if not found:
                self._rest = head
                return
            self._switched = b" 101 " in head
            self._transport.writelines(list(self._asks.values()))
        at, size, again, failed = 0, len(data), list[bytes](), 0
        asks = self._asks
        while at + 10 < size:  # an answer is longer than any head of a frame
            length, start = data[at + 1], at + 2
            if length == LONG:
                length, start = int.from_bytes(data[at + 2 : at + 4], "big"), at + 4
            elif length == LONGER:
                length, start = int.from_bytes(data[at + 2 : at + 10], "big"), at + 10
            if start + length > size:
                break
            comma = data.index(b",", start)
            again.append(asks[data[start + ID : comma]])
            failed += data.startswith(FAILED, comma)
            at = start + length
        self._rest = data[at:]
        counts = self._counts
        if counts.over:
            self._transport.abort()
        elif again:
            counts.answers += len(again) - failed
            counts.bad_status += failed
            self._transport.write(b"".join(again))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._counts.over:
            self._counts.socket_errors += 1
        self.ended.set_result(None)


def ask_of(number: int, text: str) -> bytes:
    return Frame(Opcode.TEXT, json.dumps({"id": number, "input": text}).encode()).serialize(mask=True)


async def ask(url: str, connections: int, asks: int, seconds: float, text: str) -> dict[str, float]:
    to = urlsplit(url)
    wish = (
        f"GET {to.path} HTTP/1.1\r\nHost: {to.netloc}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    ).encode()
    frames = {str(number).encode(): ask_of(number, text) for number in range(asks)}
    assert to.hostname is not None
    assert to.port is not None
    host, port = to.hostname, to.port
    counts, loop, began = Counts(), asyncio.get_running_loop(), time.monotonic()
    askers = []
    for _ in range(connections):
        _, asker = await loop.create_connection(lambda: Asker(wish, frames, counts), host, port)
        askers.append(asker)
    await asyncio.sleep(began + seconds - time.monotonic())
    counts.over, took = True, time.monotonic() - began
    await asyncio.wait([asker.ended for asker in askers], timeout=seconds)
    return {
        "answers": counts.answers,
        "seconds": took,
        "bad_status": counts.bad_status,
        "socket_errors": counts.socket_errors,
    }


def main() -> None:
    url, connections, asks, seconds = sys.argv[1:]
    gc.disable()
    text = sys.stdin.read()
    print(json.dumps(uvloop.run(ask(url, int(connections), int(asks), float(seconds), text))))
    sys.stdout.flush()
    os._exit(0)  # nothing is to be tidied up, and half a million frames would be


if __name__ == "__main__":
    main()
