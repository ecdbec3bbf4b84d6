"""One model that is served in this process: its batcher, the loops that drive it, its slots; and how it stands.

A `penstock serve` has one for each of its models; `roles/model.py` makes it and adds its slots. `embedded_server`
runs the loops and asks how it stands, and the desk of the model asks what it can take. Nothing in this file awaits.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from penstock.core.batcher import Batcher
from penstock.core.capacity import CapacityRules
from penstock.core.forecast import backlog_seconds
from penstock.core.rules import BatchingRules
from penstock.gauges import ModelGauges
from penstock.jobs import Slack
from penstock.ports import Clock
from penstock.runtime.condition import (
    Utilization,
    WorkerRow,
    condition,
    report_of,
    row_here,
    takes_bytes,
)
from penstock.runtime.model_condition import (
    capacity_health,
    model_gauges,
    reason_of,
    state_of,
    utilization_of,
)
from penstock.runtime.pump import Pump
from penstock.runtime.slot import Slot
from penstock.words.heartbeats import SlotReport


class ServedModel:
    def __init__(self, name: str, pump: Pump, capacity: CapacityRules, clock: Clock) -> None:
        self.name = name
        self.pump = pump
        self.batcher: Batcher = pump.batcher
        self.pumps = [pump]  # the pump of the model, and that of its cost function, where it has one
        self.slots: list[Slot] = []  # the slots of the model, and those of its cost function
        self._capacity = capacity
        self._clock = clock
        self._utilization = Utilization(clock())

    def follow(self, rules: BatchingRules, capacity: CapacityRules) -> None:
        """Go by these rules from now on. Batches that run keep the limit that they were sent with."""
        self._capacity = capacity
        self.batcher.follow(rules)
        for pump in self.pumps[1:]:
            pump.batcher.follow(
                replace(
                    pump.batcher.rules,
                    tiers=rules.tiers,
                    max_lanes=rules.max_lanes,
                    processing=rules.processing,
                )
            )
        for slot in self.slots:
            slot.processing_limit = rules.processing
        for pump in self.pumps:
            pump.look_again()

    # ---- for its desk -------------------------------------------------------------------------------------

    def takes_parameters(self) -> bool:
        return any(getattr(slot.backend, "takes_parameters", True) for slot in self.slots)

    def parameter_names(self) -> Sequence[str] | None:
        """The names of the parameters that the model takes. All slots run the same, so any slot that has started
        knows."""
        known = (getattr(slot.backend, "parameter_names", None) for slot in self.slots)
        return next(filter(None, known), None)

    def takes_bytes(self) -> bool:
        return all(map(takes_bytes, self.slots))

    def ready(self) -> bool:
        return self.batcher.fleet.healthy > 0

    def loading(self) -> bool:
        """Whether no worker can serve, and some worker is still in its first batch."""
        fleet = self.batcher.fleet
        return fleet.healthy == 0 and fleet.loaded_in(self._clock()) is not None

    def slack(self) -> Slack:
        fleet = self.batcher.fleet
        return Slack(self.batcher.waiting, fleet.idle, fleet.healthy)

    def backlog_seconds(self) -> float:
        return backlog_seconds(self.batcher, self._clock())

    # ---- how it stands ------------------------------------------------------------------------------------

    def health(self, now: float) -> dict[str, Any]:
        fleet, curve = self.batcher.fleet, self.batcher.curve
        return {
            "status": condition(len(fleet.workers), fleet.healthy),
            "gpu_utilization": round(utilization_of(self.batcher, now), 4),
            "queue_depth": self.batcher.waiting,
            "requests_per_second": round(self.batcher.rate(now), 3),
            "policy": self.batcher.rules.policy,
            "policy_reason": reason_of(self.batcher),
            **capacity_health(self.batcher, self._capacity),
            "workers_healthy": fleet.healthy,
            "workers": len(fleet.workers),
            "service_ms": {"single": round(curve.single * 1e3, 3), "full": round(curve.full * 1e3, 3)},
            "service_spread": round(curve.spread, 4),
            "best_batch": curve.best_size,
            "new_size_ms": round(curve.shape.seconds * 1e3, 3) if curve.shape.known else None,
            "batch_sizes": list(self.batcher.rules.sizes.allowed) or None,
            "padded_share": round(self.batcher.padded_share, 4),
            "largest_fitting": self.batcher.parts.safe_sizes.smallest(),
            "set_apart": self.batcher.apart.tenants(now),
        }

    def workers(self, now: float, *, leaving: bool) -> list[WorkerRow]:
        known = self.batcher.fleet.workers
        self._utilization.look({worker.id: worker.busy_for(now) for worker in known.values()}, now)
        slots = [slot for slot in self.slots if slot.worker in known]
        return [row_here(slot.worker, self._report(slot, now, leaving)) for slot in slots]

    def _report(self, slot: Slot, now: float, leaving: bool) -> SlotReport:
        worker = self.batcher.fleet.workers[slot.worker]
        return report_of(
            self.name,
            slot,
            state_of(worker, now),
            leaving=leaving,
            utilization=self._utilization.of(worker.id),
            in_flight=sum(batch.size for batch in (worker.batch, worker.ahead) if batch is not None),
            batches=worker.batches,
            busy_seconds=worker.busy_seconds,
            relative_service_time=round(worker.speed, 3),
            largest_fitting=self.batcher.parts.safe_sizes.smallest().get(worker.id),
        )

    def gauges(self, tiers: Sequence[str], now: float) -> ModelGauges:
        gauges = model_gauges(
            self.batcher, self._capacity, tiers, now, sum(slot.restarts for slot in self.slots)
        )
        own = [slot for slot in self.slots if slot.worker in self.batcher.fleet.workers]
        full = sum(slot.full for slot in own)
        # The batcher counts a slot whose backend is full as offline. Here it is shown as full.
        workers = {**gauges.workers, "full": full, "offline": gauges.workers["offline"] - full}
        return replace(gauges, workers=workers, pressure=max(slot.pressure for slot in own))
