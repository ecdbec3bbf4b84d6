"""A batcher's intake over Redis: it reads the shards that the batcher leases. Each batcher runs an `Intake`
(`cluster/batcher.py`), which `shards.py` makes; `adapters/in_hand.py` does what follows once an entry was read.

    entry read or claimed ──► its requests are in hand ──► all of them settled ──► acknowledged and deleted

Until then an entry stays in the shard's pending list, so that the next owner of the shard finds it if this batcher
dies. A shard is looked over (`_look_over`) whenever something may have gone wrong with it: it was gained or lost, a
connection broke, a batcher left. What to do with an entry follows from who has it by the pending list:

    we, but never saw it           the answer that brought it was lost: take it
    we, and it is in hand          nothing, whoever leases the shard now: we finish what we began
    a dead batcher                 take it over, if the shard is ours
    another, but it is in hand     we were thought dead, and it was taken from us: let go of it, unacknowledged
    nobody, but it is in hand      Redis has lost it, and we have not: finish it

Entries that were taken over, or that lay in a shard before we gained it, are inherited.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Protocol

from redis.exceptions import RedisError

from penstock.adapters.in_hand import Entry, InHand
from penstock.adapters.redis.bus.backlogs import Backlogs
from penstock.adapters.redis.bus.offsets import Offsets
from penstock.adapters.redis.bus.pending import (
    GROUP,
    Fields,
    claim,
    create_group,
    drop_dead,
    is_no_group,
    pending,
)
from penstock.adapters.redis.bus.scripts import ACK, DROP_CONSUMER
from penstock.adapters.redis.link.connect import Patience, Store
from penstock.adapters.redis.link.scripts import Call
from penstock.loops import Loops, for_ever
from penstock.ports import Clock
from penstock.ports.shards import Taken
from penstock.words.envelopes import Envelope

log = logging.getLogger("penstock.batcher")

PACE = 0.002  # seconds from one read to the next under load, so that each brings several envelopes
LOAD = 8  # requests that one read brings
BLOCK = 0.1  # seconds a read waits at Redis; a shard that is gained meanwhile is read after that
GATHER = 0.1  # seconds between acknowledgements: each costs three commands for each shard
_COUNT = 8  # envelopes of each shard in one read, so that a backlog after an outage comes in small parts
_LOOK = 4  # shards that are looked over at once
_FIELD = b"e"


class Leases(Protocol):
    """What the intake needs of `ports.shards.Leases`."""

    @property
    def owned(self) -> Collection[int]:
        """The shards that this process may read now."""
        ...


class Intake(InHand[Taken, bytes]):
    """Implements `ports.shards.Intake`."""

    def __init__(
        self,
        store: Store,
        me: str,
        clock: Clock,
        leases: Leases,
        alive: Callable[[], Collection[str]],
        kind: type[Taken],
    ) -> None:
        """`me`: this batcher's name in the registry, and as a consumer. `alive`: returns the names of the batchers
        that are there. `kind`: the class of which requests are made, because `on_request` expects it."""
        super().__init__(kind, store.aside)
        self._store, self._me, self._clock, self._leases, self._alive = store, me, clock, leases, alive
        self._reader = store.blocking()
        self._streams = [store.keys.shard(shard) for shard in range(store.settings.shards)]
        self._shard_of = {stream.encode(): shard for shard, stream in enumerate(self._streams)}
        self._offsets = Offsets()
        # By shard, the ids that are to be acknowledged.
        self._done: defaultdict[int, list[bytes]] = defaultdict(list)
        self._owned: frozenset[int] = frozenset()
        self._living: frozenset[str] = frozenset()
        # Whether the registry knows us. If it does not, its list of the others proves nothing.
        self._registered = False
        self._doubtful: set[int] = set()  # shards that are to be looked over
        self._backlogs = Backlogs(store)
        self._changed = asyncio.Event()  # set when leases or batchers have changed
        self._closing = False  # whether nothing more is read
        self._reading = 0  # readers that have not stopped

    def shards_changed(self) -> None:
        """Look now, and not only after the next read: the leases or the registry have changed."""
        self._changed.set()

    def _finished(self, entry: Entry[bytes]) -> None:
        self._done[entry.shard].append(entry.id)

    def _sent_at(self, envelope: Envelope, received: float) -> float:
        return received - self._offsets.transit(envelope.gateway, envelope.sent, received)

    # ---- the loops ---------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Read the shards and acknowledge what is settled, until cancelled."""
        every = range(self._store.settings.shards)
        parts = [[shard] for shard in every] if self._store.clustered else [list(every)]
        self._reading = len(parts)
        async with Loops() as loops:
            loops.keep("acknowledging", self._acknowledge)
            for shards in parts:
                loops.keep(_reader(shards), partial(self._read_all, shards))

    async def release(self) -> None:
        """Read no more. Returns when all that is in hand is settled and acknowledged; `run` must go on
        meanwhile."""
        self._closing = True
        self._changed.set()
        while self._reading or self.in_hand or self._done or self._entries:
            self._progress.clear()
            await self._progress.wait()
        try:
            for stream in self._streams:
                await DROP_CONSUMER(self._store.commands, [stream], [GROUP, self._me])
        # The next owner of the shard removes the consumer then.
        except (RedisError, OSError, RuntimeError) as error:
            log.info("the consumer could not be removed", extra={"error": str(error)})

    async def _read_all(self, shards: Sequence[int]) -> None:
        """Read these shards with one reader. In a cluster that is one shard, because a read goes to one node."""
        patience = Patience(f"The intake, {_reader(shards)},")
        # If this loop failed and was started again, it may have lost entries that it had read.
        self._doubtful |= self._owned.intersection(shards)
        while not self._closing:
            started = self._clock()
            self._note_changes()
            owned = [shard for shard in shards if shard in self._owned]
            try:
                await self._backlogs.note(shards)
                await self._look_over(sorted(self._doubtful.intersection(shards)))
                if not owned:
                    await self._until_changed()
                    continue
                busy = await self._read(owned) >= LOAD
                patience.succeeded()
            except (RedisError, OSError, RuntimeError) as error:
                self._doubtful.update(owned)  # an answer with entries may have been lost
                if not is_no_group(error):
                    await asyncio.sleep(patience.failed(error))
                continue
            rest = PACE - (self._clock() - started)
            if busy and rest > 0:
                await asyncio.sleep(rest)
        self._reading -= 1
        self._progress.set()
        await for_ever()

    async def _until_changed(self) -> None:
        try:
            async with asyncio.timeout(BLOCK):
                await self._changed.wait()
        except TimeoutError:
            return
        self._changed.clear()

    def _note_changes(self) -> None:
        owned, living = frozenset(self._leases.owned), frozenset(self._alive())
        if owned != self._owned:
            self._doubtful |= owned ^ self._owned
            self._backlogs.changed(owned - self._owned, owned)
        known = self._me in living
        if not living >= self._living or known != self._registered:  # a batcher has left, or we can tell now
            self._doubtful |= owned
        self._registered = known
        self._owned, self._living = owned, living

    async def _read(self, shards: Sequence[int]) -> int:
        """Read once. Returns the number of requests that came."""
        streams = [self._streams[shard] for shard in shards]
        where = await self._store.at(self._reader, streams[0])
        answer = await self._reader.execute_command(
            "XREADGROUP", "GROUP", GROUP, self._me, "COUNT", _COUNT, "BLOCK", round(BLOCK * 1e3),
            "STREAMS", *streams, *([">"] * len(streams)), **where,
        )  # fmt: skip
        received, taken = self._clock(), 0
        for stream, entries in answer or ():
            shard = self._shard_of[stream]
            for entry_id, fields in entries:
                inherited = self._backlogs.holds(shard, entry_id)
                taken += self._take_entry(shard, entry_id, fields, received, inherited=inherited)
        return taken

    def _take_entry(
        self, shard: int, entry_id: bytes, fields: Fields, received: float, *, inherited: bool
    ) -> int:
        body = fields.get(_FIELD, b"")
        return self._take(shard, entry_id, body, self._streams[shard], received, inherited=inherited)

    # ---- when in doubt -----------------------------------------------------------------------------------

    async def _look_over(self, shards: Sequence[int]) -> None:
        """Look these shards over. A few go at a time, because each costs a few round trips and Redis may be far
        away."""
        for first in range(0, len(shards), _LOOK):
            looks = (self._look_at(shard) for shard in shards[first : first + _LOOK])
            for ended in await asyncio.gather(*looks, return_exceptions=True):
                if ended is not None:
                    raise ended

    async def _look_at(self, shard: int) -> None:
        self._doubtful.discard(shard)
        try:
            await self._compare(shard)
        except BaseException:
            self._doubtful.add(shard)
            raise

    async def _compare(self, shard: int) -> None:
        """Compare what is pending in a shard with what we have in hand."""
        client, stream, owned = self._store.commands, self._streams[shard], shard in self._owned
        inherits = owned and self._registered
        living = self._living
        taken: list[bytes] = []
        lost: list[Entry[bytes]] = []
        try:
            async for entry_id, consumer in pending(client, stream):
                entry = self._entries.get((shard, entry_id))
                if entry is None:
                    if consumer == self._me or (inherits and consumer not in living):
                        taken.append(entry_id)
                elif consumer != self._me and entry.left:
                    lost.append(entry)
        except RedisError as error:
            if not is_no_group(error):
                raise
            if not owned:
                return
            # The group is made only where it is missing, because a full Redis would refuse the command.
            await create_group(client, stream)
        if lost:
            self._lose(lost)
        async for entry_id, fields in claim(client, stream, self._me, taken):
            self._take_entry(shard, entry_id, fields, self._clock(), inherited=True)
        if taken:
            log.info("entries taken over", extra={"shard": shard, "entries": len(taken)})
        if inherits:
            await drop_dead(client, stream, living)

    # ---- acknowledgements --------------------------------------------------------------------------------

    async def _acknowledge(self) -> None:
        patience = Patience("Acknowledging")
        while True:
            if not self._done:
                await self._progress.wait()
                self._progress.clear()
            await asyncio.sleep(GATHER)
            done = {shard: list(ids) for shard, ids in self._done.items()}
            calls: list[Call] = [([self._streams[shard]], [GROUP, *ids]) for shard, ids in done.items()]
            failed: Exception | None = None
            for (shard, ids), answer in zip(done.items(), await ACK.each(self._store, calls), strict=True):
                if isinstance(answer, Exception) and not is_no_group(answer):
                    failed = answer
                else:
                    self._forget(shard, ids)
            if failed is not None:
                await asyncio.sleep(patience.failed(failed))
            else:
                patience.succeeded()

    def _forget(self, shard: int, ids: Sequence[bytes]) -> None:
        rest = self._done[shard][len(ids) :]
        if rest:
            self._done[shard] = rest
        else:
            del self._done[shard]
        for entry_id in ids:
            self._entries.pop((shard, entry_id), None)
        self._progress.set()


def _reader(shards: Sequence[int]) -> str:
    return "reading" if len(shards) > 1 else f"reading shard {shards[0]}"
