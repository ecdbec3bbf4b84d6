"""When Redis itself did not answer, as somebody sees who is neither a client nor a process of the installation."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from history import AFTERWARDS, STANDSTILL, Record

EVERY = 0.01  # seconds between two questions


class Silences:
    def __init__(self) -> None:
        self._times: list[tuple[float, float]] = []  # from when to when

    def note(self, asked: float, answered: float) -> None:
        if answered - asked > STANDSTILL:
            self._times.append((asked, answered))

    def excuse(self, record: Record) -> bool:
        """Whether it was refused because Redis was away, and Redis was."""
        return record.code == "STORE_UNAVAILABLE" and any(
            since < record.done and record.sent < until + AFTERWARDS for since, until in self._times
        )


@asynccontextmanager
async def listening_to_redis(port: int) -> AsyncIterator[Silences]:
    silences = Silences()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def ask() -> None:
        while True:
            asked = time.monotonic()
            writer.write(b"PING\r\n")
            await reader.readline()
            silences.note(asked, time.monotonic())
            await asyncio.sleep(EVERY)

    task = asyncio.create_task(ask())
    try:
        yield silences
    finally:
        task.cancel()
        await asyncio.wait([task])
        writer.close()
