"""Makes the adapters of one process to Redis by the configuration: bus, shards and records. The roles over a bus
(`gateway.py`, `batcher.py`, `worker.py`, `autoscaler.py`) make one and hand its parts to their member.
`key_store.py` and `up.py` need the settings alone. Nothing connects here."""

from penstock.adapters.redis.bus.bus import RedisBus
from penstock.adapters.redis.bus.shards import RedisShards
from penstock.adapters.redis.link.connect import RedisSettings, Store
from penstock.adapters.redis.records import holdings
from penstock.adapters.redis.records.records import Keep, RedisRecords
from penstock.config import Config


class Redis:
    """The adapters of one process to Redis. They are made at once, and connected when the bus is opened."""

    def __init__(self, config: Config) -> None:
        self.store = Store(redis_settings(config))
        self.bus = RedisBus(self.store)
        self.shards = RedisShards(self.store)
        self.records = RedisRecords(self.store, self.bus.post, _keep(config))


def redis_settings(config: Config) -> RedisSettings:
    """Returns what the configuration says of Redis, as the adapters take it."""
    redis = config.redis
    return RedisSettings(
        url=redis.url,
        namespace=redis.namespace,
        shards=redis.shards,
        durability=redis.durability,
        replicas=redis.replicas,
        lease=redis.lease,
        heartbeat=redis.heartbeat,
    )


def _keep(config: Config) -> Keep:
    """Returns how much of each kind of record is kept, and for how long."""
    limits, keys = config.limits, config.idempotency
    share, memory = limits.tenant_share, config.redis.memory_limit
    return Keep(
        tasks=holdings.tasks(limits.max_tasks, limits.max_task_bytes, share, memory),
        keyed=holdings.keyed(keys.max_bytes, share, memory),
        letters=holdings.letters(config.redis.max_dead_letters, limits.max_dead_letter_bytes, share, memory),
        results=limits.result_ttl,
        keys=keys.ttl,
        dead=limits.dead_letter_ttl,
    )
