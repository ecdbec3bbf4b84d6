"""What the config allows tenants to keep in Redis."""

from penstock.adapters.redis.link.connect import Store
from penstock.adapters.redis.records import holdings
from penstock.adapters.redis.records.dead_letters import DeadLetters
from penstock.adapters.redis.records.holdings import Bounds
from penstock.config import Config


def bounds_of_tasks(config: Config) -> Bounds:
    limits = config.limits
    return holdings.tasks(
        limits.max_tasks, limits.max_task_bytes, limits.tenant_share, config.redis.memory_limit
    )


def bounds_of_keys(config: Config) -> Bounds:
    return holdings.keyed(config.idempotency.max_bytes, config.limits.tenant_share, config.redis.memory_limit)


def dead_letters(store: Store, config: Config) -> DeadLetters:
    limits, redis = config.limits, config.redis
    bounds = holdings.letters(
        redis.max_dead_letters, limits.max_dead_letter_bytes, limits.tenant_share, redis.memory_limit
    )
    return DeadLetters(store, bounds, limits.dead_letter_ttl)
