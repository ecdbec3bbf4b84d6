"""A way to Redis that can be cut, or made slow and lossy, for one process alone: no rights are needed, unlike for a
network of its own.

While it is cut nothing passes and nobody is told, as when packets are dropped: connections stay, new ones seem to
come about, and what was on the way arrives when the line is mended, unless its sender has hung up meanwhile.

In bad weather what is sent to Redis takes its time, and segments are lost both ways. Whoever uses TCP sees a lost
segment as a pause, until it was sent again; what is behind it waits too.
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

CHUNK = 65536
SEGMENT = 1448  # bytes of a TCP segment on Ethernet
Pieces = asyncio.Queue[tuple[float, bytes]]  # on their way: when each arrives; nothing in the last one


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad the line is."""

    delay: float = 0.0  # seconds on the way to Redis
    jitter: float = 0.0  # seconds that the delay may be more or less
    loss: float = 0.0  # the part of all segments that is lost, either way
    # Seconds until a lost segment is sent again; doubled each time that it is lost once more.
    again: float = 0.2

    def takes(self, size: int, random: Random, *, forth: bool) -> float:
        """Returns the seconds until so many bytes have arrived. `forth`: to Redis, not back."""
        late = max(map(self._pause, [random] * -(-size // SEGMENT)), default=0.0)
        return late + (random.uniform(self.delay - self.jitter, self.delay + self.jitter) if forth else 0.0)

    def _pause(self, random: Random) -> float:
        """Until a segment is not lost any more."""
        pause, again = 0.0, self.again
        while random.random() < self.loss:
            pause, again = pause + again, 2 * again
        return pause


FINE = Weather()


class CutLine:
    def __init__(self, port: int, seed: int = 0) -> None:
        self._upstream = port
        self._random, self._weather = Random(seed), FINE
        self._loop = asyncio.new_event_loop()
        self._whole = asyncio.Event()
        self._whole.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self.port = 0

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """When it returns nothing passes any more."""
        self._do(self._set(whole=False))

    def mend(self) -> None:
        self._do(self._set(whole=True))

    def turn(self, weather: Weather) -> None:
        """From now on the weather is this."""
        self._weather = weather

    def start(self) -> None:
        self._thread.start()
        self._do(self._listen())

    def close(self) -> None:
        self._do(self._hang_up())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60.0)

    async def _set(self, *, whole: bool) -> None:
        if whole:
            self._whole.set()
        else:
            self._whole.clear()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _hang_up(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _connected(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        task = self._loop.create_task(self._join(near, back))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _join(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        try:
            await self._whole.wait()
            far, forth = await asyncio.open_connection("127.0.0.1", self._upstream)
            there, here = Pieces(), Pieces()
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._take(near, there, forth=True))
                    group.create_task(self._give(there, forth))
                    group.create_task(self._take(far, here, forth=False))
                    group.create_task(self._give(here, back))
            finally:
                forth.close()
        except* OSError:
            pass  # either side has gone, and the other is told by the end of its connection
        finally:
            back.close()

    async def _take(self, source: asyncio.StreamReader, pieces: Pieces, *, forth: bool) -> None:
        """Read, and say when each piece arrives: in the order in which they were sent."""
        arrives = 0.0
        while data := await source.read(CHUNK):
            takes = self._weather.takes(len(data), self._random, forth=forth)
            arrives = max(arrives, self._loop.time() + takes)
            pieces.put_nowait((arrives, data))
        pieces.put_nowait((arrives, b""))

    async def _give(self, pieces: Pieces, target: asyncio.StreamWriter) -> None:
        while True:
            arrives, data = await pieces.get()
            if (wait := arrives - self._loop.time()) > 0:
                await asyncio.sleep(wait)
            await self._whole.wait()
            if not data:
                return target.close()
            target.write(data)
            await target.drain()


@contextmanager
def cut_line(port: int, seed: int = 0) -> Iterator[CutLine]:
    """To the Redis at this port."""
    line = CutLine(port, seed)
    line.start()
    try:
        yield line
    finally:
        line.close()
