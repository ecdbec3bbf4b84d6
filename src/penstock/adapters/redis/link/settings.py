"""How one installation uses Redis."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RedisSettings:
    url: str
    namespace: str = "penstock"
    shards: int = 16
    # memory, fsync or replica: what has happened when a request counts as accepted
    durability: str = "memory"
    replicas: int = 1  # how many replicas must have a request, when durability is replica
    lease: float = 1.0  # seconds of silence after which a process counts as dead
    heartbeat: float = 0.25  # seconds from one heartbeat to the next
    timeout: float = 1.0  # seconds a command may take before Redis counts as away
    block: float = 1.0  # seconds a blocking read waits at Redis before it asks again
