"""Which members in the registry go on, and do not drain. A batcher that drains gives its shards back and takes no
more requests, and yet it stays in the registry until it has finished what it has in hand. To know who takes
requests, gateways (`gateway.py`, `gateway_admission.py`), batchers (`batcher.py`, by way of `member.py` too) and
`condition.py` ask here. Whoever asks who may still have something in hand asks the registry itself. Pure: it only
looks at the heartbeats that the registry has.
"""

from penstock.ports.registry import Registry
from penstock.words.heartbeats import Kind


def staying(registry: Registry, kind: Kind) -> set[str]:
    """The names of the members of this kind that do not drain."""
    return {name for name, said in registry.members[kind].items() if not said.draining}


def zones_that_batch(registry: Registry) -> set[str]:
    """The zones in which a batcher takes requests."""
    return {said.zone or "" for said in registry.members["batchers"].values() if not said.draining}
