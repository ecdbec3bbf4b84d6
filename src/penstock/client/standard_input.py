"""Lines of standard input, which come in their own time: another program writes them, or a person. `file_job.py`
reads them, and its event loop goes on meanwhile.

A thread waits for them, because not every kind of standard input can be watched by an event loop. It waits for the
word to stop beside, because a thread that only reads could not be ended.
"""

import asyncio
import os
import select
from collections.abc import AsyncIterator
from threading import Semaphore, Thread

CHUNK = 1 << 16  # bytes that are read at once
AHEAD = 4  # chunks that may wait to be taken


class StandardInput:
    """The lines of a file, without their ends. What is not said to be of the thread is of the event loop."""

    def __init__(self, file: int) -> None:
        """`file`: its descriptor, which stays open."""
        self._file = os.dup(file)
        self._stop_seen, self._stop = os.pipe()
        self._loop = asyncio.get_running_loop()
        self._come: asyncio.Queue[list[bytes] | Exception | None] = asyncio.Queue()
        self._room = Semaphore(AHEAD)
        self._stopped = False
        # A daemon: another program may take the bytes that this thread was woken for, and then it waits on.
        self._thread = Thread(target=self._read, name="penstock-stdin", daemon=True)
        self._thread.start()

    async def lines(self) -> AsyncIterator[bytes]:
        """Returns each as soon as it has come. Raises OSError if no more can be read."""
        while (come := await self._come.get()) is not None:
            if isinstance(come, Exception):
                raise come
            for line in come:
                if self._stopped:
                    return
                yield line
            self._room.release()

    def stop(self) -> None:
        """No more lines come, and nobody waits for one."""
        if not self._stopped:
            self._stopped = True
            os.close(self._stop)
            self._room.release()
            self._come.put_nowait(None)

    def _read(self) -> None:
        """The thread."""
        end: Exception | None = None
        try:
            self._read_on()
        except OSError as error:
            end = error
        finally:
            os.close(self._file)
            os.close(self._stop_seen)
        self._give(end)

    def _read_on(self) -> None:
        waiting = select.poll()
        waiting.register(self._file, select.POLLIN)
        waiting.register(self._stop_seen, 0)  # that its other end was closed is told all the same
        parts: list[bytes] = []  # of the line that has not come in full
        while not self._stopped:
            if any(file == self._stop_seen for file, _ in waiting.poll()):
                return
            read = os.read(self._file, CHUNK)
            if not read:
                last = b"".join(parts)
                if last:
                    self._give([last])
                return
            first, *others = read.split(b"\n")
            parts.append(first)
            if others:
                whole = [b"".join(parts), *others[:-1]]
                parts = [others[-1]]
                self._room.acquire()
                self._give(whole)

    def _give(self, come: list[bytes] | Exception | None) -> None:
        """In the thread: hands over to the loop, unless that is closed."""
        try:
            self._loop.call_soon_threadsafe(self._come.put_nowait, come)
        except RuntimeError:
            self._stopped = True
