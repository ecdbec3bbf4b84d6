"""An event loop in a thread of its own, for programs that have no event loop. `sync_client.py` makes one for each
`Client` when it is first needed, and `sync_map.py` works in it."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class OwnLoop:
    """An event loop that runs until `stop`."""

    def __init__(self) -> None:
        import uvloop  # not before it is needed: programs with a loop of their own may have another

        self.loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        # A daemon, because a program that forgets to close the client must end all the same.
        self._thread = threading.Thread(target=self._run, name="penstock-client", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs the work in the loop, and returns what it returns. Ctrl-C gives the work up."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """Ends the loop and its thread. What is under way is cancelled."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
        finally:
            self.loop.run_until_complete(self._end())
            self.loop.close()

    async def _end(self) -> None:
        """Cancels what is still under way in the loop."""
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
