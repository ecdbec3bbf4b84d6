"""How requests come from the gateways to the batchers: through shards, each of which one batcher leases at a time.

    publisher ──envelope──► shard ──► intake of the batcher that leases it ──► settled: gone from the shard

A request that a batcher has taken in stays pending in its shard until it is settled. If the batcher dies, the next
one to lease the shard finds it there.

Gateways and batchers in `cluster` call this; `adapters/redis/bus` and `adapters/memory` implement it.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Protocol, TypeVar

from penstock.ports import Broker, Clock
from penstock.shard_plan import ZoneOf
from penstock.types import Accepted, Failure, Request

Alive = Callable[[], Collection[str]]  # the names of the batchers that are there
Taken = TypeVar("Taken", bound=Accepted)


class Publisher(Broker[Accepted], Protocol):
    """A gateway's end of the shards. Only `accepted` and `flush` wait."""

    on_failed: Callable[[Sequence[Accepted], Failure], None]  # called with requests that did not arrive
    # Awaited before anything is sent again to a store that was away. If it fails, the store still counts as away.
    on_back: Callable[[], Awaitable[None]]

    @property
    def down(self) -> bool:
        """Whether nothing can be accepted now."""
        ...

    def bound(self, max_requests: int, max_bytes: int) -> None:
        """Let so much wait to be sent from now on; beyond it requests are refused."""
        ...

    def prefer(self, shards: Collection[int]) -> None:
        """Send requests to these shards from now on, as long as one of them can be reached. At first, and if this
        is never called, they go to all."""
        ...

    def withdraw_key(self, key: str, shard: int) -> None:
        """Withdraw a request by its key, even if another gateway sent it."""
        ...

    async def accepted(self, request: Accepted) -> None:
        """Publish a request, and return once it is safe in its shard. Raises StoreDown or Overloaded if it is
        not."""
        ...

    async def flush(self) -> None:
        """Wait until nothing is left to send, or it cannot be sent. `run` must be running."""
        ...

    async def run(self) -> None:
        """Send what is published and withdrawn, until cancelled."""
        ...


class Leases(Protocol):
    """Which shards a batcher may read. Each new owner of a shard has a higher fence number."""

    on_gained: Callable[[int], None]  # called with a shard that this batcher owns from now on
    on_lost: Callable[[int], None]  # called with a shard that it owns no longer

    @property
    def owned(self) -> frozenset[int]:
        """The shards that this batcher owns."""
        ...

    def fence(self, shard: int) -> int:
        """The fence number of a shard that this batcher owns."""
        ...

    def batchers_changed(self) -> None:
        """Look now which shards to take or give back, since batchers have come or gone."""
        ...

    async def release_all(self) -> None:
        """Give all shards back, and take none any more."""
        ...

    async def run(self) -> None:
        """Hold our share of the shards until cancelled."""
        ...


class Intake(Protocol[Taken]):
    """A batcher's end of the shards: it is given each request in the shards that it leases, once.

    `on_inherited` is called with a request that a dead batcher left, or that lay in the shard before anybody leased
    it. Such a request is not refused any more, and only its deadline bounds it.
    """

    on_inherited: Callable[[Taken], None]
    on_lost: Callable[[Sequence[Taken]], None]  # called with requests that another batcher answers for now
    # Called with a request that could not be taken in, which the callee must settle.
    on_refused: Callable[[Taken, Failure], None]
    # Called for requests that cannot be read, with the mailbox of their gateway and their keys.
    on_unreadable: Callable[[str, Sequence[str], Failure], None]

    @property
    def in_hand(self) -> Collection[str]:
        """The keys of requests that are taken in and not settled."""
        ...

    def subscribe(
        self, on_request: Callable[[Taken], None], on_withdraw: Callable[[Taken], None]
    ) -> None: ...

    def settled(self, requests: Iterable[Request]) -> None:
        """Note that these requests have their answers, or need none. They leave their shards."""
        ...

    def shards_changed(self) -> None:
        """Look now which shards to read, since the leases or the registry changed."""
        ...

    async def release(self) -> None:
        """Read no more, and wait until all that is in hand is settled. `run` must go on."""
        ...

    async def run(self) -> None:
        """Read the shards until cancelled."""
        ...


class Shards(Protocol):
    """Makes both ends of the shards."""

    @property
    def number(self) -> int:
        """How many shards there are."""
        ...

    def publisher(self, box: str, clock: Clock, max_requests: int, max_bytes: int) -> Publisher:
        """A gateway's end. `box`: the mailbox that answers are sent to."""
        ...

    def leases(self, me: str, alive: Alive, zone_of: ZoneOf = ...) -> Leases:
        """Which shards a batcher may read. `zone_of`: says in which zone a batcher is, by its name."""
        ...

    def intake(self, me: str, clock: Clock, leases: Leases, alive: Alive, kind: type[Taken]) -> Intake[Taken]:
        """A batcher's end. `kind`: the class of the requests that it makes."""
        ...
