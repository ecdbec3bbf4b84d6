"""One process of the closed loop: `python -m benchmarks.closed_loop_process URL CONNECTIONS SECONDS [START] <BODY`.

`closed_loop` starts as many of them as it wants. Every connection asks again as soon as it has its answer. Prints
the fields of a `wrk.Measurement` as JSON. With START, a moment of the monotonic clock, answers count from then on:
several processes count in the same seconds.
"""

import asyncio
import gc
import json
import resource
import sys
import time
from typing import cast
from urllib.parse import urlsplit

import httptools
import uvloop

PATIENCE_SECONDS = 30.0  # for the answers that are owed at the end


class Counts:
    def __init__(self) -> None:
        self.over = False
        self.reset()

    def reset(self) -> None:
        self.answers = self.bad_status = self.socket_errors = 0


class Asker(asyncio.Protocol):
    """One connection, which asks again as soon as it is answered."""

    def __init__(self, request: bytes, counts: Counts) -> None:
        self._request = request
        self._counts = counts
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        counts = self._counts
        if counts.over:
            self._transport.close()
        else:
            if self._parser.get_status_code() == 200:
                counts.answers += 1
            else:
                counts.bad_status += 1
            self._transport.write(self._request)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._counts.over:
            self._counts.socket_errors += 1
        self.ended.set_result(None)


async def ask(
    url: str, body: bytes, connections: int, seconds: float, start: float | None
) -> dict[str, float]:
    to = urlsplit(url)
    assert to.hostname is not None
    assert to.port is not None
    host, port = to.hostname, to.port
    head = (
        f"POST {to.path} HTTP/1.1\r\nHost: {to.netloc}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    request, counts, loop = head.encode() + body, Counts(), asyncio.get_running_loop()
    began = time.monotonic()
    askers = []
    for _ in range(connections):
        _, asker = await loop.create_connection(lambda: Asker(request, counts), host, port)
        askers.append(asker)
    if start is not None:
        await asyncio.sleep(start - time.monotonic())
        counts.reset()
        began = time.monotonic()
    await asyncio.sleep(began + seconds - time.monotonic())
    counts.over = True
    took = time.monotonic() - began
    await asyncio.wait([asker.ended for asker in askers], timeout=PATIENCE_SECONDS)
    return {
        "answers": counts.answers,
        "seconds": took,
        "bad_status": counts.bad_status,
        "socket_errors": counts.socket_errors,
    }


def main() -> None:
    url, connections, seconds, *start = sys.argv[1:]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    gc.disable()
    body, moment = sys.stdin.buffer.read(), float(start[0]) if start else None
    print(json.dumps(uvloop.run(ask(url, body, int(connections), float(seconds), moment))))


if __name__ == "__main__":
    main()
