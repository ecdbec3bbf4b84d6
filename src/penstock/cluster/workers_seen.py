"""The workers of an installation as one batcher sees them: by their heartbeats, and by news of their deaths. The
batcher calls `WorkersSeen` whenever such news came, and that tells the pumps who is there and who has gone.

A heartbeat may be out of date, so it cannot say that a batch has ended. The slot itself reports the end of its
batch. If its whole process dies, its batches go to others (`left`). While a process is silent, this batcher gives
its slots no work. Others take over its batches only after the lease.
"""

from collections.abc import Mapping

from penstock.ports.registry import Registry
from penstock.runtime.condition import DEGRADED, HEALTHY, LOADING
from penstock.runtime.pump import Pump
from penstock.types import Rung, WarmUp, WorkerId
from penstock.words.heartbeats import SlotReport
from penstock.words.slot_name import SlotName, process_of

MOST_DEPARTED = 1000  # processes that are remembered as gone


class WorkersSeen:
    def __init__(self, registry: Registry, pumps: Mapping[str, Pump], zone: str = "") -> None:
        """`pumps`: by the name of the model. `zone`: that of this batcher."""
        self._registry = registry
        self._zone = zone
        self._pumps = pumps
        self._slots: dict[str, dict[WorkerId, str]] = {}  # by worker process: the model of each of its slots
        self._warmed: dict[WorkerId, WarmUp] = {}  # what was last heard of the warm-up of each slot
        self._departed: dict[str, None] = {}  # worker processes that have gone, the latest last

    def look(self) -> None:
        """Take in the registry. Called with every heartbeat."""
        for process, said in self._registry.members["workers"].items():
            self._see(process, said.slots, abroad=(said.zone or "") != self._zone)

    def miss(self) -> None:
        """Note the workers that are no longer in the registry: they have left."""
        for process in self._slots.keys() - self._registry.members["workers"].keys():
            self.left(process)

    def unreachable(self, box: str) -> None:
        """Note that a message could not be delivered to this mailbox. The mailbox of a gateway is ignored."""
        if box in self._slots:
            self.left(box)

    def left(self, process: str) -> None:
        """Note that a worker process died or left. The batches that its slots had in hand are sent to others."""
        for slot, model in self._slots.pop(process, {}).items():
            self._pumps[model].removed(slot)
            self._warmed.pop(slot, None)
        self._departed[process] = None
        if len(self._departed) > MOST_DEPARTED:
            del self._departed[next(iter(self._departed))]

    def is_gone(self, slot: str) -> bool:
        """Whether this slot is gone. True also for a slot that we have not heard of. We then drop its place in the
        line. If the slot is alive, it stands in the line again within a second (`dock.AGAIN`). If it died before we
        came, or never was a slot, it does not come back."""
        process = process_of(slot)
        return process in self._departed or slot not in self._slots.get(process, ())

    def zone_of(self, slot: str) -> str:
        """The zone of a slot's process, or our own if that is not known any more."""
        said = self._registry.members["workers"].get(process_of(slot))
        return self._zone if said is None else said.zone or ""

    def pump_of(self, slot: str) -> Pump | None:
        """The pump of the model that a slot runs."""
        name = SlotName.parse(slot)
        return None if name is None else self._pumps.get(name.model)

    def _see(self, process: str, slots: Mapping[WorkerId, SlotReport], *, abroad: bool) -> None:
        self._departed.pop(process, None)  # a process that was thought gone was only cut off for a while
        known, silent = self._slots.setdefault(process, {}), self._registry.is_silent(process)
        for slot, said in slots.items():
            pump = self._pumps.get(said.model)
            if pump is None:
                continue
            known[slot] = said.model
            if said.warm_up or said.warm_up_too_large is not None:
                self._hear_of_warm_up(pump, slot, said)
            pump.batcher.worker_takes(slot, one_at_a_time=not said.runs_ahead, abroad=abroad)
            worker = pump.batcher.fleet.workers.get(slot)
            if silent:
                if worker is not None and worker.ready:
                    pump.doubted(slot)
            elif said.status == HEALTHY:
                if worker is None or not worker.ready:
                    pump.known(slot)
            elif said.status == LOADING:
                if worker is None or not worker.loading:
                    pump.loading(slot, said.first_batch_seconds)
            elif worker is not None and worker.ready and worker.batch is None:
                pump.gone(slot, None)
            elif worker is not None and worker.ready and said.status == DEGRADED:
                pump.doubted(slot)  # the slot leaves or is full: it finishes what it has, and gets no more

    def _hear_of_warm_up(self, pump: Pump, slot: WorkerId, said: SlotReport) -> None:
        """Take in how a slot was warmed up, once. Each heartbeat repeats it, for batchers that come later."""
        rungs = tuple(Rung(each.size, each.first, tuple(each.again)) for each in said.warm_up)
        warm_up = WarmUp(rungs, said.warm_up_too_large, said.warm_up_length)
        if self._warmed.get(slot) != warm_up:
            self._warmed[slot] = warm_up
            pump.warmed(slot, warm_up)
