"""The settings of one installation's Redis, as plain values. `roles/redis.py` makes them of the configuration,
which no adapter knows; `connect.py` connects by them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RedisSettings:
    """What a `Store` connects by; all of `redis/` reads it as `store.settings`."""

    url: str
    namespace: str = "penstock"  # the beginning of every key's name
    shards: int = 16  # streams that accepted requests are spread over
    # memory, fsync or replica: where a request must be before it counts as accepted
    durability: str = "memory"
    replicas: int = 1  # how many replicas must have a request, when durability is replica
    lease: float = 1.0  # seconds of silence after which a process counts as dead
    heartbeat: float = 0.25  # seconds from one heartbeat to the next
    timeout: float = 1.0  # seconds a command may take before Redis counts as away
    block: float = 1.0  # seconds a blocking read waits at Redis before it asks again
