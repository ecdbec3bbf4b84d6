"""What lay in a shard before this batcher had it: those entries waited while nobody was there to read them."""

from collections.abc import Collection

from penstock.adapters.redis.bus.pending import last_entries
from penstock.adapters.redis.link.connect import Store

Position = tuple[int, int]


class Backlogs:
    """The backlogs of the shards that were gained, until their readers are past what lay there."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._gained: set[int] = set()  # gained, and not looked at yet
        self._last: dict[int, Position] = {}  # for each shard the last entry when we came

    def changed(self, gained: Collection[int], owned: Collection[int]) -> None:
        self._gained = {*self._gained, *gained} & {*owned}
        self._last = {shard: last for shard, last in self._last.items() if shard in owned}

    async def note(self, shards: Collection[int]) -> None:
        """Note how far each of these newly gained shards reaches, in one round trip for all."""
        gained = sorted(self._gained.intersection(shards))
        streams = [self._store.keys.shard(shard) for shard in gained]
        for shard, last in zip(gained, await last_entries(self._store, streams), strict=True):
            self._last[shard] = _position(last)
            self._gained.discard(shard)

    def holds(self, shard: int, entry_id: bytes) -> bool:
        """Whether an entry that was read now lay there already. Entries are read in order: the first that did not
        is the end of the backlog."""
        last = self._last.get(shard)
        if last is None:
            return False
        if _position(entry_id) <= last:
            return True
        del self._last[shard]
        return False


def _position(entry_id: bytes) -> Position:
    """The id as two numbers, which compare in the order of the stream."""
    milliseconds, _, number = entry_id.partition(b"-")
    return int(milliseconds), int(number)
