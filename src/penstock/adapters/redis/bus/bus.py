"""The bus of an installation whose processes meet at a Redis: it hands out mailboxes, the registry, the lines of
idle slots and the lead. Each gateway, batcher, worker and autoscaler has one (`roles/redis.py`)."""

from collections.abc import Callable

from penstock.adapters.redis.bus.credits import Credits
from penstock.adapters.redis.bus.leadership import Leadership
from penstock.adapters.redis.bus.mailbox import Mailbox, Post
from penstock.adapters.redis.bus.registry import Registry
from penstock.adapters.redis.link.connect import Store, check_durability
from penstock.words.heartbeats import Heartbeat, Kind


class RedisBus:
    """Implements `ports.bus.Bus`."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.where = store.where
        self.heartbeat, self.lease = store.settings.heartbeat, store.settings.lease
        self.aside = store.aside
        self.post = Post(store)

    def credits(self, zone: str = "") -> Credits:
        return Credits(self.store, zone)

    def mailbox(self, owner: str) -> Mailbox:
        return Mailbox(self.store, owner)

    def leadership(self, of: str, me: str) -> Leadership:
        return Leadership(self.store, of, me)

    def registry(self, kind: Kind, me: str, describe: Callable[[], Heartbeat]) -> Registry:
        self.store.aside.me = me
        return Registry(self.store, kind, me, describe)

    async def open(self) -> None:
        await self.store.open()
        check_durability(self.store.settings, self.store.features)

    async def close(self) -> None:
        await self.store.close()
