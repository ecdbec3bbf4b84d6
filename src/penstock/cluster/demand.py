"""How much is asked of each model and what its workers can do, by the heartbeats in the registry. The autoscaler
(`cluster/autoscaler.py`) has one `Demand`, and asks it before each decision.

A worker here is a process of `penstock worker`: that is what a Deployment has more or fewer of. It may have several
slots, and slots of several models.

Arrivals are counted by the batchers, and by the gateways where these refuse a request although a worker more might
have helped. Each says how many there were since it started. So nothing is lost if a heartbeat is, and of a process
that is heard of for the first time nothing counts yet.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple

from penstock.core.scaling.seen import Seen
from penstock.ports.registry import Registry
from penstock.runtime.condition import HEALTHY
from penstock.words.heartbeats import WorkerHeartbeat

MOST_REMEMBERED = 1000  # processes that are not there, and whose counts are kept


class _Learned(NamedTuple):
    """What one slot of a model does. It is still believed while no worker is there."""

    rate: float = 0.0  # requests a second at full batches; 0 while nobody knows
    batch: int = 1  # requests in a full batch
    slots: int = 1  # slots of the model in one process


class Demand:
    def __init__(self, registry: Registry, models: Collection[str]) -> None:
        """`models`: those that count; empty: all that are announced."""
        self._registry = registry
        self._chosen = frozenset(models)
        self._counted: dict[str, Mapping[str, int]] = {}  # by process, what it had counted last of each model
        self._learned: dict[str, _Learned] = defaultdict(_Learned)  # by model

    @property
    def models(self) -> list[str]:
        """The models that count and are known."""
        return sorted(name for name in self._registry.models if not self._chosen or name in self._chosen)

    @property
    def workers(self) -> int:
        """How many worker processes there are for these models, those that are not ready included."""
        return sum(bool(_slots(said, self.models)) for said in self._workers().values())

    def look(self) -> dict[str, Seen]:
        """Returns how each model stands. Arrivals are those since the last call."""
        arrived = self._arrived()
        return {name: self._seen(name, arrived[name]) for name in self.models}

    def _seen(self, model: str, arrived: int) -> Seen:
        loads = [
            said.models[model] for said in self._registry.members["batchers"].values() if model in said.models
        ]
        learned = self._learn(model)
        return Seen(
            arrived=arrived,
            waiting=sum(load.queue_depth for load in loads),
            ready=sum(_can_serve(said, model) for said in self._workers().values()),
            rate_of_one=learned.rate * learned.slots,
            batch=learned.batch * learned.slots,
        )

    def _learn(self, model: str) -> _Learned:
        """Take in what the batchers have learned of one slot, and how many slots a process has."""
        learned = self._learned[model]
        for said in self._registry.members["batchers"].values():
            load = said.models.get(model)
            if load is not None and load.capacity_rps > 0.0 and load.workers_healthy:
                learned = learned._replace(
                    rate=load.capacity_rps / load.workers_healthy, batch=load.max_batch
                )
        slots = max((_slots(said, (model,)) for said in self._workers().values()), default=0)
        if slots:
            learned = learned._replace(slots=slots)
        self._learned[model] = learned
        return learned

    def _workers(self) -> Mapping[str, WorkerHeartbeat]:
        """The worker processes that stay."""
        workers = self._registry.members["workers"].items()
        return {name: said for name, said in workers if not said.draining}

    def _arrived(self) -> dict[str, int]:
        """By model, how many requests came since the last call."""
        members, arrived = self._registry.members, defaultdict[str, int](int)
        counts: dict[str, Mapping[str, int]] = {
            name: {model: load.arrived for model, load in said.models.items()}
            for name, said in members["batchers"].items()
        }
        counts |= {name: said.turned_away for name, said in members["gateways"].items()}
        for name, models in counts.items():
            before = self._counted.get(name, models)
            for model, number in models.items():
                arrived[model] += max(0, number - before.get(model, 0))
        # A process that is cut off for a while is remembered, so that its whole count is not taken for news.
        remembered = {name: models for name, models in self._counted.items() if name not in counts}
        if len(remembered) > MOST_REMEMBERED:
            remembered = {}
        self._counted = remembered | counts
        return arrived


def _slots(said: WorkerHeartbeat, models: Collection[str]) -> int:
    return sum(slot.model in models for slot in said.slots.values())


def _can_serve(said: WorkerHeartbeat, model: str) -> bool:
    return any(slot.model == model and slot.status == HEALTHY for slot in said.slots.values())
