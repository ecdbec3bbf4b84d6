"""Work that goes on although its caller has left."""

import asyncio
import gc
from typing import Any

from penstock.cluster.unbroken import Unbroken
from penstock.errors import StoreDown
from penstock.testing import run_virtual


def test_nobody_is_told_of_a_failure_that_comes_after_the_caller_has_left() -> None:
    async def fails() -> None:
        await asyncio.sleep(1.0)
        raise StoreDown("away")

    async def body() -> None:
        told: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context))
        work = Unbroken()
        caller = asyncio.create_task(work.whole(fails()))
        await asyncio.sleep(0.5)
        caller.cancel()
        await asyncio.sleep(1.0)
        gc.collect()
        assert told == []
        await work.close()

    run_virtual(body())
