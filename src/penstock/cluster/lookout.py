"""Finds out how the gateways and batchers of an installation stand: each is asked through its mailbox and answers
with a report.

Every member has a `Lookout`, which tells the member's overview what is around it. It asks others only while
somebody looks at the overview. Mailboxes are used, and not admin planes, because every process can reach them,
without an address and without a token. Workers and autoscalers are not asked: their heartbeats say all of it.
"""

import asyncio
from collections.abc import Callable, Sequence

from penstock.cluster.condition import all_worker_rows, process_rows
from penstock.errors import StoreDown
from penstock.overview.overview import ProcessLook
from penstock.ports.bus import Post
from penstock.ports.registry import Registry
from penstock.runtime.condition import WorkerRow
from penstock.words.messages import Look, Seen, encode

LIMIT = 0.8  # seconds that the others have to answer: less than between two looks


class _Open:
    """One look that is being taken."""

    def __init__(self, boxes: set[str]) -> None:
        self.silent = boxes  # the processes that have not answered yet
        self.reports: list[bytes] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Lookout:
    """Implements `runtime.own_overview.Surroundings`."""

    def __init__(self, me: str, post: Post, registry: Registry) -> None:
        self._me, self._post, self._registry = me, post, registry
        self._last = 0  # the number of the last look
        self._open: dict[int, _Open] = {}  # the looks that are being taken, by number
        self._answering: set[asyncio.Task[bool]] = set()  # reports that are being sent
        # Returns the report of this process as bytes, with the last hour if that is asked for.
        self.describe: Callable[[bool], bytes] | None = None

    def workers(self) -> Sequence[WorkerRow]:
        return all_worker_rows(self._registry)

    def processes(self) -> list[ProcessLook]:
        rows = process_rows(self._registry)
        return [ProcessLook(row.name, row.role, row.host, row.last_seen, told=False) for row in rows]

    async def look(self, *, hour: bool = False) -> list[bytes]:
        """Returns the reports of all other gateways and batchers that answer in time."""
        members = self._registry.members
        boxes = {
            name
            for said in (members["gateways"], members["batchers"])
            for name, heartbeat in said.items()
            if heartbeat.tells and name != self._me
        }
        if not boxes:
            return []
        self._last += 1
        number, looking = self._last, _Open(boxes)
        self._open[number] = looking
        question = encode(Look(self._me, number, hour))
        try:
            async with asyncio.timeout(LIMIT):
                await self._post.send_all([(box, question) for box in sorted(boxes)], give_up_after=LIMIT)
                await looking.done
        except (TimeoutError, StoreDown):
            pass  # what has been told by now is shown
        finally:
            del self._open[number]
        return looking.reports

    def asked(self, look: Look) -> None:
        """Answer the look of another process."""
        if self.describe is None:
            return
        told = encode(Seen(self._me, look.number, self.describe(look.hour)))
        task = asyncio.create_task(self._post.send(look.asker, told, give_up_after=LIMIT))
        self._answering.add(task)
        task.add_done_callback(self._answered)

    def _answered(self, task: "asyncio.Task[bool]") -> None:
        self._answering.discard(task)
        if not task.cancelled():
            task.exception()  # an answer that could not be sent is forgotten: the other has stopped waiting

    def told(self, seen: Seen) -> None:
        """Take in the answer of another process."""
        looking = self._open.get(seen.number)
        if looking is None or seen.name not in looking.silent:
            return
        looking.silent.discard(seen.name)
        looking.reports.append(seen.report)
        if not looking.silent and not looking.done.done():
            looking.done.set_result(None)
