"""Who of the members in the registry goes on, and who drains. A batcher that drains has given its shards back and
reads nothing, and yet it stays in the registry until it has finished what it has in hand. So whoever asks who takes
requests asks here; whoever asks who may still have something in hand asks the registry itself.
"""

from penstock.ports.registry import Registry
from penstock.words.heartbeats import Kind


def staying(registry: Registry, kind: Kind) -> set[str]:
    """The names of the members of this kind that do not drain."""
    return {name for name, said in registry.members[kind].items() if not said.draining}


def zones_that_batch(registry: Registry) -> set[str]:
    """The zones in which a batcher takes requests."""
    return {said.zone or "" for said in registry.members["batchers"].values() if not said.draining}
