"""The models that an autoscaler has left without a worker, and what their clients are told: how long a start takes.

A gateway's admission (`cluster/gateway_admission.py`) has one `NoWorker`. It looks whenever the registry has
changed, so that asking about a request costs nearly nothing. It knows only what the autoscalers say with their
heartbeats.
"""

from math import ceil
from typing import NamedTuple

from penstock.cluster.condition import has_worker
from penstock.errors import Overloaded
from penstock.ports.registry import Registry

LEAST = 1.0  # seconds: the shortest `Retry-After`


class _Start(NamedTuple):
    """When a worker should be ready."""

    at: float | None  # when, by our clock; None if no worker has been asked for yet
    takes: float  # seconds that a start takes


class NoWorker:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        # The models without a worker, if one is or will be started for them.
        self.models: dict[str, _Start] = {}

    def look(self, now: float) -> None:
        """Take in what the autoscalers say."""
        found: dict[str, _Start] = {}
        for said in self._registry.members["autoscalers"].values():
            for name, model in said.models.items():
                waits = model.ready_in is not None or model.wanted == 0
                if waits and not model.ready and not has_worker(self._registry, name):
                    at = None if model.ready_in is None else now + model.ready_in
                    found[name] = _Start(at, model.start_seconds)
        self.models = found

    def refusal(self, model: str, now: float) -> Overloaded:
        """What a request for this model is told."""
        start = self.models[model]
        wait = max(LEAST, start.takes if start.at is None else start.at - now)
        return Overloaded(
            f"no worker is running; one is being started and should be ready in {ceil(wait)} s",
            retry_after=wait,
        )
