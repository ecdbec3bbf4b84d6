"""How the workers of a model are warmed up, made from the configuration. Whoever makes the
slots of a model calls it: `penstock serve` (`roles/model.py`) and a worker (`cluster/worker_slots.py`). The
simulator asks for the sizes (`roles/simulation.py`)."""

from collections.abc import Sequence

import msgspec

from penstock.config import Model
from penstock.config.sections import PADDED
from penstock.core.ladder import ladder
from penstock.core.room import Room
from penstock.from_config.input_cost import cost_of
from penstock.from_config.rules import sizes_of
from penstock.ports import Clock
from penstock.runtime.warm_up import Warmer


def ladder_of(model: Model) -> list[int]:
    """Returns the sizes of batch that a worker is warmed up with."""
    return ladder(sizes_of(model).allowed, model.max_batch)


def idle_sizes_of(model: Model) -> list[int]:
    """Returns the sizes that a worker runs in idle moments; none unless `warm_when_idle` is set."""
    return ladder_of(model) if model.warm_when_idle else []


def warmer_of(name: str, model: Model, clock: Clock) -> Warmer:
    """Returns what warms up the workers of this model."""
    inputs = None if model.warmup is None else [msgspec.json.encode(each) for each in model.warmup]
    cost, most = cost_of(model.cost), model.max_cost

    def fits(batch: Sequence[bytes]) -> bool:
        """Returns whether a batch of these inputs costs no more than `max_cost`. A user's cost function is not
        asked."""
        if cost is None or most is None:
            return True
        room, costs = Room(most, padded=model.batch_cost == PADDED), [cost(each) for each in batch]
        return costs[0] <= most and all(room.takes(each) for each in costs)

    return Warmer(
        name,
        model.target,
        inputs,
        ladder_of(model),
        model.start_timeout,
        clock,
        per_item=model.parameters == "per_item",
        fits=fits,
    )
