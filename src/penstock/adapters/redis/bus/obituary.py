"""Tells the installation that a process has died, so that the others need not wait for the end of its lease. The
supervisor of `penstock up` does so for the processes it started (`roles/up.py`).

    out of the registry ──► its mailbox removed ──► a batcher's leases given back ──► everybody is told

Nothing is lost if this fails or comes too late: one lease later the silence of the process tells the same. The
process is found by its host, its process id and its parent's, which each heartbeat says. A process that sent no
heartbeat had nothing in hand.
"""

from collections.abc import Sequence
from os import getpid
from socket import gethostname

from penstock.adapters.redis.bus.mailbox import Post
from penstock.adapters.redis.bus.scripts import LEASE_RELEASE
from penstock.adapters.redis.link.connect import RedisSettings, Store, guard
from penstock.adapters.redis.link.scripts import Call
from penstock.words.basics import Garbled
from penstock.words.heartbeats import KINDS, read_heartbeat
from penstock.words.messages import Departed, encode

TELL_WITHIN = 1.0  # seconds to tell the others; after that the silence of the dead process tells as much

Whereabouts = tuple[str, int | None, int | None]  # host, process, parent


class Obituaries:
    """The obituaries of this process's children."""

    def __init__(self, settings: RedisSettings) -> None:
        self._settings = settings

    async def tell(self, kind: str, pid: int) -> list[str]:
        """Tell of a dead child. Returns the names under which it was registered; none if it had left. Raises
        StoreDown."""
        died = gethostname(), pid, getpid()
        store = Store(self._settings)
        try:
            with guard():
                members = {str(each): await _members(store, each) for each in KINDS}
                names = [name for name, said in members[kind].items() if said == died]
                others = [other for each in KINDS for other in members[each] if other not in names]
                for name in names:
                    await _bury(store, kind, name, others)
        finally:
            await store.close()
        return names


async def _bury(store: Store, kind: str, name: str, others: Sequence[str]) -> None:
    await store.commands.execute_command("HDEL", store.keys.registry(kind), name)
    await store.commands.execute_command("DEL", store.keys.box(name))
    if kind == "batchers":
        await _give_back(store, name)
    word = encode(Departed(kind, name))
    await Post(store).send_all([(other, word) for other in others], give_up_after=TELL_WITHIN)


async def _members(store: Store, kind: str) -> dict[str, Whereabouts | None]:
    entries = await store.commands.execute_command("HGETALL", store.keys.registry(kind))
    return {name.decode(errors="replace"): _whereabouts(value) for name, value in entries.items()}


def _whereabouts(value: bytes) -> Whereabouts | None:
    """Returns where a process runs, by its entry in the registry: a stamp and a heartbeat."""
    try:
        said = read_heartbeat(value.partition(b" ")[2])
    except Garbled:
        return None
    return said.host, said.pid, said.parent


async def _give_back(store: Store, name: str) -> None:
    keys = [store.keys.lease(shard) for shard in range(store.settings.shards)]
    calls: list[Call] = []
    for key, holder in zip(keys, await store.each([("GET", key) for key in keys]), strict=True):
        if isinstance(holder, bytes):
            owner, _, fence = holder.decode(errors="replace").rpartition(":")
            if owner == name:
                calls.append(([key], [owner, fence]))
    await LEASE_RELEASE.each(store, calls)
