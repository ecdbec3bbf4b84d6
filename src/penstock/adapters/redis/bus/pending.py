"""The pending list of a shard, as Redis keeps it: which entries (messages with requests) were given to which
batcher and are not settled yet. A batcher's intake reads and claims through these functions (`intake.py`,
`backlogs.py`).

Whatever happened to a batcher or a connection, the pending list says what is to be done with each entry.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any

from redis.exceptions import ResponseError

from penstock.adapters.redis.bus.scripts import DROP_CONSUMER
from penstock.adapters.redis.link.connect import Client, Store

GROUP = "batchers"
_PAGE = 1000  # rows of the pending list that are read at once
_CLAIM = 100  # entries claimed at once: few, since their bodies come along

Fields = dict[bytes, bytes]


async def create_group(client: Client, stream: str) -> None:
    """Make the group. It reads from the beginning of the stream, so that entries which came before it are read
    too."""
    try:
        await client.execute_command("XGROUP CREATE", stream, GROUP, "0", "MKSTREAM")
    except ResponseError as error:
        if not str(error).startswith("BUSYGROUP"):
            raise


async def pending(client: Client, stream: str) -> AsyncIterator[tuple[bytes, str]]:
    """Yields the id of each pending entry, and the consumer that has it."""
    start = "-"
    while True:
        rows: list[dict[str, Any]] = await client.xpending_range(stream, GROUP, start, "+", _PAGE)
        for row in rows:
            yield row["message_id"], row["consumer"].decode(errors="replace")
        if len(rows) < _PAGE:
            return
        start = "(" + rows[-1]["message_id"].decode()


async def last_entries(store: Store, streams: Sequence[str]) -> list[bytes]:
    """Returns the id of the newest entry that each stream ever had."""
    last = []
    for said in await store.each([("XINFO STREAM", stream) for stream in streams]) if streams else ():
        if isinstance(said, Exception) and not is_no_group(said):
            raise said
        last.append(b"0-0" if isinstance(said, Exception) else said["last-generated-id"])
    return last


async def claim(
    client: Client, stream: str, consumer: str, ids: Sequence[bytes]
) -> AsyncIterator[tuple[bytes, Fields]]:
    """Take these entries over from whichever consumer has them, and yield them. Deleted ones are left out."""
    for first in range(0, len(ids), _CLAIM):
        part = ids[first : first + _CLAIM]
        entries: list[Any] = await client.execute_command("XCLAIM", stream, GROUP, consumer, 0, *part)
        for entry, fields in entries:
            if entry is not None and fields is not None:
                yield entry, fields


async def consumers(client: Client, stream: str) -> list[str]:
    """Returns the names of all batchers that the group of a shard knows."""
    rows: list[Any] = await client.execute_command("XINFO CONSUMERS", stream, GROUP)
    return [row["name"].decode(errors="replace") for row in rows]


async def drop_dead(client: Client, stream: str, living: Collection[str]) -> None:
    """Forget consumers that are gone and have nothing pending."""
    for name in await consumers(client, stream):
        if name not in living:
            await DROP_CONSUMER(client, [stream], [GROUP, name])


def is_no_group(error: BaseException) -> bool:
    """Returns whether the error says that the stream or its group is not there: Redis was emptied, or the shard was
    never used."""
    return isinstance(error, ResponseError) and str(error).startswith(("NOGROUP", "no such key"))
