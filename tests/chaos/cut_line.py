"""A way to Redis that can be cut, for one process alone: no rights are needed, unlike for a network of its own.

While it is cut nothing passes and nobody is told, as when packets are dropped: connections stay, new ones seem to
come about, and what was on the way arrives when the line is mended, unless its sender has hung up meanwhile.
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

CHUNK = 65536


class CutLine:
    def __init__(self, port: int) -> None:
        self._upstream = port
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
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pass(near, forth))
                    group.create_task(self._pass(far, back))
            finally:
                forth.close()
        except* OSError:
            pass  # either side has gone, and the other is told by the end of its connection
        finally:
            back.close()

    async def _pass(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        while data := await source.read(CHUNK):
            await self._whole.wait()
            target.write(data)
            await target.drain()
        await self._whole.wait()
        target.close()


@contextmanager
def cut_line(port: int) -> Iterator[CutLine]:
    """To the Redis at this port."""
    line = CutLine(port)
    line.start()
    try:
        yield line
    finally:
        line.close()
