"""New backends take the place of those that slots have, one slot after the other; no batch is lost over it."""

from collections.abc import Callable, Mapping, Sequence

from penstock.ports import Backend
from penstock.runtime.slot import Slot
from penstock.types import WorkerId


async def renew(slots: Sequence[Slot], makers: Mapping[WorkerId, Callable[[], Backend]]) -> None:
    """Raises BackendError if a new one does not start, or fails its warm-up. Its slot and those after it keep
    theirs."""
    for slot in slots:
        backend = makers[slot.worker]()
        if waited := slot.renew(backend, await slot.prepare(backend)):
            await waited.close()
