"""An event loop in a thread of its own, for programs that have no event loop. `sync_client.py` makes one for each
`Client` when it is first needed, and `sync_map.py` works in it."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from queue import SimpleQueue
from typing import Any, TypeVar
from weakref import WeakSet

from penstock.client.errors import NoContact

T = TypeVar("T")


class OwnLoop:
    """The loop, running until `stop`. Whoever waits for it is then told that the client is closed."""

    def __init__(self) -> None:
        import uvloop  # not before it is needed: programs with a loop of their own may have another

        self.loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self._stopped = False
        self._last: Callable[[], Coroutine[Any, Any, None]] | None = None
        self._waiting: WeakSet[SimpleQueue[Any]] = WeakSet()
        # What comes before the stop is still done, and what comes after it is told. The collector may stop the loop
        # in whatever thread runs.
        self._lock = threading.RLock()
        # A daemon, because a program that forgets to close the client must end all the same.
        self._thread = threading.Thread(target=self._run, name="penstock-client", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs the work in the loop, and returns what it returns. Ctrl-C gives the work up. Raises NoContact if the
        loop is stopped first."""
        with self._lock:
            if self._stopped:
                work.close()
                raise closed()
            future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except CancelledError:
            raise closed() from None
        except BaseException:
            future.cancel()
            raise

    def soon(self, work: Callable[..., object], *arguments: object) -> None:
        """Has the loop do something, and does not wait for it. Raises NoContact if the loop is stopped."""
        with self._lock:
            if self._stopped:
                raise closed()
            self.loop.call_soon_threadsafe(work, *arguments)

    def tell_end(self, queue: "SimpleQueue[Any]") -> None:
        """Puts a None into the queue when the loop has ended. Raises NoContact if it is stopped."""
        with self._lock:
            if self._stopped:
                raise closed()
            self._waiting.add(queue)

    def tell_no_end(self, queue: "SimpleQueue[Any]") -> None:
        with self._lock:
            self._waiting.discard(queue)

    def stop(self, last: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """`last`: what is done at the end, when all else has been given up."""
        with self._lock:
            if not self._stopped:
                self._stopped, self._last = True, last
                self.loop.call_soon_threadsafe(self.loop.stop)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            try:
                self.loop.run_until_complete(self._end())
                self.loop.close()
            finally:
                with self._lock:
                    waiting = list(self._waiting)
                for queue in waiting:
                    queue.put(None)

    async def _end(self) -> None:
        """Cancels what is still under way in the loop."""
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._last is not None:
            await self._last()


def closed() -> NoContact:
    return NoContact("the client is closed: make another one", code="CLOSED")
