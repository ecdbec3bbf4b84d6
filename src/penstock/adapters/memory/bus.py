"""A bus for members that live in one process: no Redis, no threads, and time by the clock that it is given.

Only tests use it: they run the real gateways, batchers and workers over one `MemoryBus`, in virtual time. It keeps
the promises of the ports: what is sent to a member that has left is refused, a member that sent no heartbeat for a
lease is gone, and another member takes over its work.
"""

from collections.abc import Callable

from penstock.adapters.memory.aside import MemoryAside
from penstock.adapters.memory.boxes import Boxes, MemoryMailbox, MemoryPost
from penstock.adapters.memory.intake import MemoryIntake
from penstock.adapters.memory.leases import MemoryLeases
from penstock.adapters.memory.line import Line, MemoryCredits
from penstock.adapters.memory.publisher import MemoryPublisher
from penstock.adapters.memory.registry import MemoryRegistry, SharedRegistry
from penstock.adapters.memory.shard import SharedShards
from penstock.ports import Clock
from penstock.ports.shards import Alive, Leases, Taken
from penstock.shard_plan import ZoneOf, nowhere
from penstock.words.heartbeats import Heartbeat, Kind


class MemoryBus:
    """Implements `ports.bus.Bus`."""

    where = "memory"

    def __init__(self, clock: Clock, *, heartbeat: float = 0.25, lease: float = 1.0) -> None:
        self._clock = clock
        self.heartbeat, self.lease = heartbeat, lease
        self.aside = MemoryAside()
        self._boxes = Boxes(clock)
        self.post = MemoryPost(self._boxes)
        self._lines: dict[tuple[str, str], Line] = {}  # by model and zone
        self._registry = SharedRegistry()

    def credits(self, zone: str = "") -> MemoryCredits:
        return MemoryCredits(self._lines, zone)

    def mailbox(self, owner: str) -> MemoryMailbox:
        return MemoryMailbox(self._boxes, owner, self.heartbeat)

    def registry(self, kind: Kind, me: str, describe: Callable[[], Heartbeat]) -> MemoryRegistry:
        return MemoryRegistry(
            self._registry,
            kind,
            me,
            describe,
            self._clock,
            self.aside,
            heartbeat=self.heartbeat,
            lease=self.lease,
        )

    async def open(self) -> None:
        """Does nothing: this bus is always there."""

    async def close(self) -> None:
        """Does nothing: the other members go on."""


class MemoryShards:
    """Implements `ports.shards.Shards` for the members of one bus."""

    def __init__(self, bus: MemoryBus, clock: Clock, number: int = 16) -> None:
        self.number = number
        self._bus, self._clock = bus, clock
        self._shards = SharedShards(number)

    def publisher(self, box: str, clock: Clock, max_requests: int, max_bytes: int) -> MemoryPublisher:
        return MemoryPublisher(self._shards, box, clock, max_requests, max_bytes)

    def leases(self, me: str, alive: Alive, zone_of: ZoneOf = nowhere) -> MemoryLeases:
        bus = self._bus
        return MemoryLeases(
            self._shards, me, alive, zone_of, self._clock, heartbeat=bus.heartbeat, lease=bus.lease
        )

    def intake(
        self, me: str, clock: Clock, leases: Leases, alive: Alive, kind: type[Taken]
    ) -> MemoryIntake[Taken]:
        return MemoryIntake(self._shards, me, clock, leases, alive, self._bus.aside, kind)
