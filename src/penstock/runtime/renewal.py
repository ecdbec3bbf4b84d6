"""New backends take the place of those that slots have, one slot after the other; no batch is lost over it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from penstock.ports import Backend
from penstock.runtime.slot import Slot
from penstock.types import WorkerId


async def renew(
    slots: Sequence[Slot], makers: Mapping[WorkerId, Callable[[], Backend]], start_timeout: float
) -> None:
    """Raises BackendError or TimeoutError if a new one does not start. Its slot and those after it keep theirs."""
    for slot in slots:
        backend = makers[slot.worker]()
        async with asyncio.timeout(start_timeout):
            await backend.start()
        if waited := slot.renew(backend):
            await waited.close()
