"""The zones of an installation, by what the heartbeats in the registry say: which there are, how each model stands
in each, and what a zone may borrow from the others (`core.lending`). Batchers ask whenever they have heard how the
others stand, and gateways whenever the registry has changed. Nothing is kept here.
"""

from collections import defaultdict
from collections.abc import Mapping

from penstock.core.lending import Loan, ZoneLoad, loan_of
from penstock.ports.registry import Registry
from penstock.runtime.condition import HEALTHY
from penstock.words.heartbeats import Kind


def zones_of(registry: Registry, kind: Kind) -> set[str]:
    """The zones in which there are members of this kind."""
    return {said.zone or "" for said in registry.members[kind].values()}


def is_zoned(registry: Registry) -> bool:
    """Whether batchers and workers are in several zones, as far as is known."""
    return len(zones_of(registry, "batchers") | zones_of(registry, "workers")) > 1


def loans_of(registry: Registry, mine: str) -> dict[str, Loan]:
    """What the zone `mine` may borrow from the others, by model."""
    return {model: loan_of(mine, loads) for model, loads in _loads(registry).items()}


def _loads(registry: Registry) -> Mapping[str, Mapping[str, ZoneLoad]]:
    """How each model stands in each zone."""
    workers: defaultdict[str, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    for name, worker in registry.members["workers"].items():
        if not registry.is_silent(name):
            for slot in worker.slots.values():
                workers[slot.model][worker.zone or ""] += slot.status == HEALTHY
    needed: defaultdict[tuple[str, str], float] = defaultdict(float)
    late: defaultdict[tuple[str, str], bool] = defaultdict(bool)
    for batcher in registry.members["batchers"].values():
        for model, said in batcher.models.items():
            each = said.capacity_rps / said.workers_healthy if said.workers_healthy else 0.0
            zone = batcher.zone or ""
            workers[model][zone] += 0
            needed[model, zone] += said.requests_per_second / each if each else 0.0
            late[model, zone] |= said.late
    return {
        model: {
            zone: ZoneLoad(number, needed[model, zone], late[model, zone]) for zone, number in zones.items()
        }
        for model, zones in workers.items()
    }
