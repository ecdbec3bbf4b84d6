"""How requests come from the gateways to the batchers: through shards, each of which one batcher leases at a time.

    publisher ──envelope──► shard ──► intake of the batcher that leases it ──► settled: gone from the shard

What a batcher has taken in stays pending in its shard until it is settled, so that whoever leases the shard after a
dead batcher finds it there.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol, TypeVar

from penstock.ports import Broker, Clock
from penstock.types import Accepted, Failure, Request

Alive = Callable[[], Collection[str]]  # the names of the batchers that are there
Taken = TypeVar("Taken", bound=Accepted)


class Publisher(Broker[Accepted], Protocol):
    """A gateway's end of the shards. Only `accepted` and `flush` wait."""

    on_failed: Callable[[Sequence[Accepted], Failure], None]  # called with requests that did not arrive

    @property
    def down(self) -> bool:
        """Whether nothing can be accepted now."""
        ...

    def withdraw_key(self, key: str, shard: int) -> None:
        """Withdraw a request that perhaps another gateway sent."""
        ...

    async def accepted(self, request: Accepted) -> None:
        """Publish, and return when a batcher will find it. Raises StoreDown or Overloaded if none will."""
        ...

    async def flush(self) -> None:
        """Return when nothing is left to send, or nowhere to send it. `run` must be running."""
        ...

    async def run(self) -> None: ...


class Leases(Protocol):
    """Which shards a batcher may read. Each new owner of a shard has a higher fence number."""

    on_gained: Callable[[int], None]
    on_lost: Callable[[int], None]

    @property
    def owned(self) -> frozenset[int]: ...

    def fence(self, shard: int) -> int:
        """The fence number of a shard that this batcher owns."""
        ...

    def batchers_changed(self) -> None:
        """Look now, and not only with the next heartbeat: batchers have come or gone."""
        ...

    async def release_all(self) -> None:
        """Give all shards back, and take none any more."""
        ...

    async def run(self) -> None:
        """Hold our share of the shards until cancelled."""
        ...


class Intake(Protocol[Taken]):
    """A batcher's end of the shards: what lies in those that it leases, each request once.

    `on_inherited` is given what was accepted while nobody could take it in: it was left by a dead batcher, or lay
    in the shard before anybody leased it. Such a request is not refused any more, and only its deadline bounds
    it.
    """

    on_inherited: Callable[[Taken], None]
    on_lost: Callable[[Sequence[Taken]], None]  # another batcher answers for these now
    on_refused: Callable[[Taken, Failure], None]  # it could not be taken in; whoever is told settles it
    on_unreadable: Callable[
        [str, Sequence[str], Failure], None
    ]  # mailbox and keys of those that cannot be read

    @property
    def in_hand(self) -> Collection[str]:
        """The keys of requests that are taken in and not settled."""
        ...

    def subscribe(
        self, on_request: Callable[[Taken], None], on_withdraw: Callable[[Taken], None]
    ) -> None: ...

    def settled(self, requests: Iterable[Request]) -> None:
        """Note that these requests have their answers, or need none."""
        ...

    def shards_changed(self) -> None:
        """Look now: the leases or the registry changed."""
        ...

    async def release(self) -> None:
        """Read no more; returns when all that is in hand is settled. `run` must go on."""
        ...

    async def run(self) -> None: ...


class Shards(Protocol):
    """Makes both ends of the shards."""

    @property
    def number(self) -> int:
        """How many shards there are."""
        ...

    def publisher(self, box: str, clock: Clock, max_requests: int, max_bytes: int) -> Publisher:
        """A gateway's end. `box`: the mailbox that answers are sent to."""
        ...

    def leases(self, me: str, alive: Alive) -> Leases: ...

    def intake(self, me: str, clock: Clock, leases: Leases, alive: Alive, kind: type[Taken]) -> Intake[Taken]:
        """A batcher's end. `kind`: the class that requests are made as, for whoever takes them."""
        ...
