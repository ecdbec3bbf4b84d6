"""Replaces the backends of slots by new ones, one slot after the other; no batch is lost over it. `penstock serve
--reload` does so when a function's file has changed (`roles/reload.py`)."""

from collections.abc import Callable, Mapping, Sequence

from penstock.ports import Backend
from penstock.runtime.slot import Slot
from penstock.types import WorkerId


async def renew(slots: Sequence[Slot], makers: Mapping[WorkerId, Callable[[], Backend]]) -> None:
    """Give each slot a new backend. Raises BackendError if one does not start, or fails its warm-up. Its slot and
    the slots after it then keep theirs."""
    for slot in slots:
        backend = makers[slot.worker]()
        if waited := slot.renew(backend, await slot.prepare(backend)):
            await waited.close()
