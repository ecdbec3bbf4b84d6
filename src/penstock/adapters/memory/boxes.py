"""Mailboxes in memory: a message waits in the box until its owner has taken it. `bus.py` makes the `Boxes` and
gives each member a mailbox, in tests that run gateways, batchers and workers in one process. `tasks.py` sends by
the post too."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from penstock.ports import Clock

LIFETIME = 60.0  # seconds that a box outlives its owner's last look
GIVE_UP_AFTER = 30.0  # seconds; only for the port's sake, since nothing here has to wait


class Box:
    """One process's mailbox."""

    def __init__(self, now: float) -> None:
        self.messages: deque[bytes] = deque()
        self.news = asyncio.Event()  # set when a message has come
        self.looked_at = now  # when the owner looked last


class Boxes:
    """All mailboxes there are, by the names of their owners."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._boxes: dict[str, Box] = {}

    def create(self, owner: str) -> Box:
        """Make a mailbox; one that is there is kept."""
        box = self.find(owner)
        if box is None:
            box = self._boxes[owner] = Box(self._clock())
        box.looked_at = self._clock()
        return box

    def find(self, owner: str) -> Box | None:
        """Returns the mailbox of an owner; None if there is none, or its owner has not looked for too long."""
        box = self._boxes.get(owner)
        if box is not None and self._clock() - box.looked_at > LIFETIME:
            self.remove(owner)
            return None
        return box

    def remove(self, owner: str) -> None:
        self._boxes.pop(owner, None)

    def put(self, owner: str, payload: bytes) -> bool:
        """Put a message into a mailbox. Returns False if there is no such box any more."""
        box = self.find(owner)
        if box is None:
            return False
        box.messages.append(payload)
        box.news.set()
        return True


class MemoryPost:
    """Implements `ports.bus.Post`."""

    apart = False

    def __init__(self, boxes: Boxes) -> None:
        self._boxes = boxes

    async def send(self, box: str, payload: bytes, *, give_up_after: float = GIVE_UP_AFTER) -> bool:
        [sent] = await self.send_all([(box, payload)], give_up_after=give_up_after)
        return sent

    async def send_all(
        self, messages: Sequence[tuple[str, bytes]], *, give_up_after: float = GIVE_UP_AFTER
    ) -> list[bool]:
        await asyncio.sleep(0)  # other tasks run meanwhile, as they do while a message goes to Redis
        return [self._boxes.put(box, payload) for box, payload in messages]


class MemoryMailbox:
    """Implements `ports.bus.Mailbox`."""

    def __init__(self, boxes: Boxes, owner: str, heartbeat: float) -> None:
        self.owner = owner
        self._boxes = boxes
        self._heartbeat = heartbeat

    async def create(self) -> None:
        self._boxes.create(self.owner)

    async def run(self, on_message: Callable[[bytes], None]) -> None:
        while True:
            box = self._boxes.create(self.owner)
            while box.messages:
                on_message(box.messages.popleft())
            box.news.clear()
            try:
                async with asyncio.timeout(self._heartbeat):
                    await box.news.wait()
            except TimeoutError:
                pass

    async def remove(self) -> None:
        self._boxes.remove(self.owner)
