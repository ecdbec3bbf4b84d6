"""The shards of an installation, as streams in Redis: hands out a gateway's publisher, and a batcher's leases and
intake. `roles/redis.py` makes one in each process; gateways and batchers use it."""

from penstock.adapters.redis.bus.intake import Intake
from penstock.adapters.redis.bus.leases import Leases
from penstock.adapters.redis.bus.publisher import Publisher
from penstock.adapters.redis.link.connect import Store
from penstock.ports import Clock
from penstock.ports.shards import Alive, Taken
from penstock.ports.shards import Leases as LeasesPort
from penstock.shard_plan import ZoneOf, nowhere


class RedisShards:
    """Implements `ports.shards.Shards`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.number = store.settings.shards

    def publisher(self, box: str, clock: Clock, max_requests: int, max_bytes: int) -> Publisher:
        return Publisher(self._store, box, clock, max_requests=max_requests, max_bytes=max_bytes)

    def leases(self, me: str, alive: Alive, zone_of: ZoneOf = nowhere) -> Leases:
        return Leases(self._store, me, alive, zone_of)

    def intake(
        self, me: str, clock: Clock, leases: LeasesPort, alive: Alive, kind: type[Taken]
    ) -> Intake[Taken]:
        return Intake(self._store, me, clock, leases, alive, kind)
