"""Which entries (messages with requests) lay in a shard before this batcher gained it. They waited while nobody was
there to read them, so they are inherited (`adapters/in_hand.py`). The batcher's intake (`intake.py`) has one
`Backlogs`, which asks Redis whenever a shard was gained."""

from collections.abc import Collection

from penstock.adapters.redis.bus.pending import last_entries
from penstock.adapters.redis.link.connect import Store

Position = tuple[int, int]  # an entry's id


class Backlogs:
    """The backlogs of the shards that were gained, until they have been read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._gained: set[int] = set()  # shards that were gained and not looked at yet
        self._last: dict[int, Position] = {}  # by shard, the last entry when we gained it

    def changed(self, gained: Collection[int], owned: Collection[int]) -> None:
        """Note which shards were gained, and which are owned now."""
        self._gained = {*self._gained, *gained} & {*owned}
        self._last = {shard: last for shard, last in self._last.items() if shard in owned}

    async def note(self, shards: Collection[int]) -> None:
        """Note the last entry of each newly gained shard of these, in one round trip for all."""
        gained = sorted(self._gained.intersection(shards))
        streams = [self._store.keys.shard(shard) for shard in gained]
        for shard, last in zip(gained, await last_entries(self._store, streams), strict=True):
            self._last[shard] = _position(last)
            self._gained.discard(shard)

    def holds(self, shard: int, entry_id: bytes) -> bool:
        """Returns whether an entry that was read now belongs to the backlog. Entries are read in order, so the
        first that does not is the end of the backlog."""
        last = self._last.get(shard)
        if last is None:
            return False
        if _position(entry_id) <= last:
            return True
        del self._last[shard]
        return False


def _position(entry_id: bytes) -> Position:
    """Returns the id as two numbers. These compare in the order of the stream."""
    milliseconds, _, number = entry_id.partition(b"-")
    return int(milliseconds), int(number)
