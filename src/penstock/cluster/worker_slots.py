"""The slots of one worker process, the docks through which they get batches, and how they stand. The worker
(`cluster/worker.py`) makes one `WorkerSlots`, runs its slots, and takes from it what heartbeats and the admin plane
say."""

from collections import Counter
from collections.abc import Callable, Sequence

from penstock.cluster.dock import RemoteDock, Report
from penstock.config import Config
from penstock.errors import BackendError
from penstock.from_config.rules import padding_of
from penstock.from_config.sharing import sameness_of
from penstock.from_config.warm_up import idle_sizes_of, warmer_of
from penstock.gauges import ModelGauges
from penstock.ports import Backend, BatchObserver, Clock
from penstock.ports.bus import Credits
from penstock.runtime.condition import Utilization, WorkerRow, report_of, row_here
from penstock.runtime.first_batches import FirstBatches
from penstock.runtime.known_good import KnownGood
from penstock.runtime.slot import Slot
from penstock.types import WorkerId
from penstock.words.heartbeats import SlotReport
from penstock.words.slot_name import SlotName

STATES = ("idle", "busy", "loading", "full", "offline")

# Called with the names of a model and of this process. Returns a function that makes a slot's backend, given the
# slot's number.
MakeBackends = Callable[[str, str], Callable[[int], Backend]]


class WorkerSlots:
    def __init__(
        self,
        config: Config,
        me: str,
        make_backends: MakeBackends,
        line: Credits,
        report: Report,
        observer: BatchObserver,
        on_started: Callable[[WorkerId, BackendError | None], None],
        clock: Clock,
    ) -> None:
        self._config = config
        self._clock = clock
        self._utilization = Utilization(clock())
        self.docks = {name: RemoteDock(name, line, report, observer, clock) for name in config.models}
        self.slots: dict[WorkerId, tuple[str, Slot]] = {}  # by the name of the slot: its model, and the slot
        for name, model in config.models.items():
            make, limits = make_backends(name, me), config.timeouts_of(name)
            first_batches, known_good, warmer = FirstBatches(), KnownGood(), warmer_of(name, model, clock)
            for number in range(model.workers):
                worker = SlotName(me, name, number).text
                slot = Slot(
                    worker,
                    make(number),
                    self.docks[name],
                    clock,
                    processing_limit=limits.processing,
                    first_batch_limit=limits.first_batch,
                    start_limit=model.start_timeout,
                    health_interval=model.health_interval,
                    on_started=on_started,
                    version=model.version,
                    warm=not model.is_function,
                    first_batches=first_batches,
                    known_good=known_good,
                    warmer=warmer,
                    idle_sizes=idle_sizes_of(model),
                    sameness=sameness_of(model),
                    padding=padding_of(model),
                )
                self.slots[worker] = name, slot

    def follow(self, config: Config) -> None:
        """Go by another configuration from now on. A batch keeps the limit that it was sent with."""
        for name, slot in self.slots.values():
            slot.processing_limit = config.timeouts_of(name).processing

    def model_of(self, worker: WorkerId) -> str:
        return self.slots[worker][0]

    def of(self, model: str) -> list[tuple[WorkerId, Slot]]:
        return [(worker, slot) for worker, (name, slot) in self.slots.items() if name == model]

    @property
    def in_flight(self) -> int:
        """Requests that are on the slots of this process."""
        return sum(self.docks[model].in_flight(worker) for worker, (model, _) in self.slots.items())

    def say_again(self) -> None:
        """Put idle slots into the line again: a batcher may have died with slots that it had taken."""
        for dock in self.docks.values():
            dock.say_again()

    async def close(self) -> None:
        for dock in self.docks.values():
            await dock.close()

    # ---- how they stand ------------------------------------------------------------------------------------

    def why_not_ready(self) -> str:
        """Why the worker is not ready, in words: a model has no slot that can take a batch. Empty if it is
        ready."""
        without = [name for name in self.docks if not self._healthy(name)]
        loading = {model for model, slot in self.slots.values() if slot.loading}.intersection(without)
        if loading:
            return f"loading {', '.join(sorted(loading))}"
        return f"no healthy slot for {', '.join(without)}" if without else ""

    def reports(self, *, leaving: bool) -> dict[WorkerId, SlotReport]:
        """How each slot stands, for the registry."""
        busy = {worker: self.docks[model].busy_seconds[worker] for worker, (model, _) in self.slots.items()}
        self._utilization.look(busy, self._clock())
        return {worker: self._report(worker, leaving) for worker in self.slots}

    def rows(self, *, leaving: bool) -> Sequence[WorkerRow]:
        """How each slot stands, for the admin plane."""
        return [row_here(worker, self._report(worker, leaving)) for worker in self.slots]

    def _report(self, worker: WorkerId, leaving: bool) -> SlotReport:
        model, slot = self.slots[worker]
        dock = self.docks[model]
        busy = dock.in_flight(worker) > 0
        state = ("busy" if busy else "idle") if dock.is_ready(worker) else "offline"
        return report_of(
            model,
            slot,
            state,
            leaving=leaving,
            utilization=self._utilization.of(worker),
            in_flight=dock.in_flight(worker),
            batches=dock.batches[worker],
            busy_seconds=dock.busy_seconds[worker],
            relative_service_time=None,
            largest_fitting=slot.warmth.fit.size,
        )

    def _healthy(self, model: str) -> int:
        dock = self.docks[model]
        return sum(dock.is_ready(worker) for worker, _ in self.of(model))

    def gauges(self) -> dict[str, ModelGauges]:
        return {name: self._gauges(name, dock) for name, dock in self.docks.items()}

    def _gauges(self, model: str, dock: RemoteDock) -> ModelGauges:
        own = self.of(model)
        states = Counter(self._report(worker, leaving=False).state for worker, _ in own)
        return ModelGauges(
            queue_depth={},
            workers={state: states[state] for state in STATES},
            busy_seconds=sum(dock.busy_seconds[worker] for worker, _ in own),
            utilization=max(self._utilization.of(worker) for worker, _ in own),
            capacity=0.0,
            restarts=sum(slot.restarts for _, slot in own),
            pressure=max(slot.pressure for _, slot in own),
        )
