"""Tasks that have ended, on their way from Redis to a ledger. Each gateway with a ledger runs an `EndedTasks`
(`cluster/gateway.py`), which `records.py` makes and which hands the rows to `cluster/task_ledger.py`.

    a script ends the task and adds a row ──► read ──► safe at this gateway ──► deleted

Of the gateways that keep a ledger, one at any time reads. A row is deleted only when it is safe, so the next reader
starts with what was left. If two gateways read a row, the ledger stores it once. If no gateway keeps a ledger, the
stream of rows does not exist and the script adds nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import Any

from redis.exceptions import RedisError

from penstock.adapters.redis.link.connect import Command, Patience, Store
from penstock.adapters.redis.link.names import TASK_BUCKETS
from penstock.adapters.redis.records.task_scripts import EXPECT
from penstock.loops import Loops
from penstock.ports.tasks import EndedTask, RecordTasks

log = logging.getLogger("penstock.ledger")

_GATHER = 0.5  # seconds from one read to the next, because a chunk of few rows costs as much as one of many
_COUNT = 500  # rows of each bucket in one read
_EXPECT_EVERY = 10.0  # seconds between two calls of EXPECT, which keeps the streams alive
_KEPT_MS = 24 * 3600 * 1000  # how long rows are kept after the last gateway with a ledger has gone
_AGAIN_AFTER = 1.0  # seconds to wait when the ledger had no room


Entries = Sequence[tuple[bytes, Sequence[tuple[bytes, dict[bytes, bytes]]]]]


class EndedTasks:
    """Implements `ports.tasks.EndedTasks`."""

    def __init__(
        self, store: Store, chosen: Callable[[], bool], record: RecordTasks, lost: Callable[[int], None]
    ) -> None:
        """`chosen`: whether this gateway is the one that reads. `record` returns False if it could not record the
        rows, and is called again. `lost` is called with the number of rows that were dropped before anybody read
        them."""
        self._store, self._chosen, self._record, self._lost = store, chosen, record, lost
        self._reader = store.blocking()
        self._changed = asyncio.Event()  # set when another gateway may have been chosen

    def look_again(self) -> None:
        """Look now: which gateway is chosen may have changed."""
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def run(self) -> None:
        """Read and record until cancelled."""
        every = range(TASK_BUCKETS)
        parts = [[bucket] for bucket in every] if self._store.clustered else [list(every)]
        async with Loops() as loops:
            for buckets in parts:
                name = "reading" if len(buckets) > 1 else f"reading bucket {buckets[0]}"
                loops.keep(name, partial(self._read_all, buckets))

    async def _read_all(self, buckets: Sequence[int]) -> None:
        """Read these buckets with one reader. In a cluster that is one bucket, because a read goes to one node."""
        patience = Patience("The ledger's reader")
        streams = [self._store.keys.ended(bucket) for bucket in buckets]
        expected, seen = 0.0, dict.fromkeys(streams, b"0")
        while True:
            if not self._chosen():
                expected, seen = 0.0, dict.fromkeys(streams, b"0")
                await self._changed.wait()
                continue
            try:
                if monotonic() >= expected:
                    await self._expect(buckets)
                    expected = monotonic() + _EXPECT_EVERY
                entries = await self._read(seen)
                tasks = _tasks(entries)
                if tasks and not await self._record(tasks):
                    await asyncio.sleep(_AGAIN_AFTER)
                    continue
                await self._delete(entries)
                patience.succeeded()
            except (RedisError, OSError, RuntimeError) as error:
                expected, seen = 0.0, dict.fromkeys(streams, b"0")  # what was not deleted is read again
                await asyncio.sleep(patience.failed(error))
                continue
            for stream, found in entries:
                seen[stream.decode()] = found[-1][0]
            if entries:
                await asyncio.sleep(_GATHER)

    async def _expect(self, buckets: Sequence[int]) -> None:
        """Keep the streams of rows alive, and report rows that were dropped."""
        keys = self._store.keys
        calls = [([keys.ended(bucket), keys.crowded_out(bucket)], [_KEPT_MS]) for bucket in buckets]
        lost = sum(_good(await EXPECT.each(self._store, calls)))
        if lost:
            log.error("ended tasks were not taken in time: their rows are lost", extra={"rows": lost})
            self._lost(lost)

    async def _read(self, seen: dict[str, bytes]) -> Entries:
        where = await self._store.at(self._reader, next(iter(seen)))
        answer = await self._reader.execute_command(
            "XREAD", "COUNT", _COUNT, "BLOCK", int(self._store.settings.block * 1e3),
            "STREAMS", *seen, *seen.values(), **where,
        )  # fmt: skip
        return answer or ()

    async def _delete(self, entries: Entries) -> None:
        commands: list[Command] = [
            ("XDEL", stream, *(entry for entry, _ in found)) for stream, found in entries
        ]
        if commands:
            _good(await self._store.each(commands))


def _good(answers: Sequence[Any]) -> Sequence[Any]:
    """Returns the answers, or raises the first error among them."""
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers


def _tasks(entries: Entries) -> list[EndedTask]:
    found = [_task(fields) for _, some in entries for _, fields in some]
    return [task for task in found if task is not None]


def _task(fields: dict[bytes, bytes]) -> EndedTask | None:
    """Returns the row in an entry; None if we cannot read it, because another version of Penstock wrote it."""
    try:
        text = {name.decode(): value.decode() for name, value in fields.items()}
        return EndedTask(
            text["key"], text["id"], text["tenant"], int(text["tier"]), text["model"], text["status"],
            int(text["created"]) / 1e3, int(text["completed"]) / 1e3,
        )  # fmt: skip
    except (KeyError, ValueError) as error:
        log.warning("an ended task was skipped", extra={"error": repr(error)})
        return None
